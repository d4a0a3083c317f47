"""The engine of bench/run.py and of demo/run.py: starts programs on allocators, measures, sums up."""
