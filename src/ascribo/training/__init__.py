"""From pairs to trained encoders: objective, penalty, the one loop, on a CPU or a GPU.

problem.py, settings.py              what to train on what, and how
source.py                            a source of batches: all that training knows of the data
source_recordings.py                 such a source over recordings
objective.py, penalty.py             the regularized contrastive loss of a batch; how the weight λ moves
packing.py                           which models train together as one stack
dispatch.py                          the entry: chooses device, stacks and processes, and calls the loop
loop.py                              the one training loop: chunks of steps, curves, checkpoints
steps.py                             a chunk of steps; steps_eager.py on a CPU, steps_cuda_graph.py on a GPU
adam.py, random_numbers.py           the optimizer and the random numbers of a stack
checkpoints.py                       the state of a run in one file
decoders.py                          small networks from the embedding back to the channels
"""
