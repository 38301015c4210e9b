"""Two runs side by side: cases paired, differences measured, one sentence at the end."""
