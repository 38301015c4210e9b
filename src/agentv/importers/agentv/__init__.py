"""Files of AgentV for TypeScript, versions 1.5 to 4.42, and of Agent Skills, translated while they are read."""
