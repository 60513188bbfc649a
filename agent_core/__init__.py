"""The parts of the agent's graph: what a turn, a view and a model call are; no I/O of their own."""
