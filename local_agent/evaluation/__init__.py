"""How well a model does with this program: labelled prompts, run through it and judged by rule.

Pure parts: `cases` (what is asked and what is right), `matching` and `judge` (whether it was),
`figures` (shares and their intervals), `report`. `recording` and `recorder` keep each reply of the
model, so that a run goes on after a kill and can be repeated without a model; `runner` runs.
"""
