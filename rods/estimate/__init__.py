"""What a run will need before it is started: memory of a GPU, time of a step, GPU-hours of the whole."""
