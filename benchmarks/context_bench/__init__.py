"""The parts of `benchmarks/context.py`."""
