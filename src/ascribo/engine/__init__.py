"""Close to the hardware: pairs drawn on the device, a training step as one CUDA graph, stacks of data sets."""
