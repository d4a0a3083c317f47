"""The engine of bench/run.py and of demo/run.py: runs programs on allocators, sums up."""
