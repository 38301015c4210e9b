"""Transcripts that coding agents write, read as conversations.

`reading.py` recognises the program that wrote a transcript; the file of each program makes events of its records;
`turns.py` makes one answer of each prompt. `steps.py` has the steps of an agent, from which the providers make
responses, too.
"""
