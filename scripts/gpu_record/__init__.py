"""What scripts/gpu_tests.py runs on a GPU, how, and the record that it writes."""
