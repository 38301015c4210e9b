"""Models and programs as judges: llm_judge, rubric, pairwise, composite, code_judge."""
