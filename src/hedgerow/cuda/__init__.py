"""GPUs: memory, copies and launches, through the driver that comes with the GPU."""
