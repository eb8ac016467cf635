"""From pairs to trained encoders: objective, penalty, the one loop, on a CPU or a GPU.

    training_problem.py, settings.py     what to train on what, and how
    batch_source.py                      where batches come from: all that training knows of the data
    recording_batches.py                 batches from recordings
    generative_process_batches.py        batches from generative processes
    objective.py, jacobian_penalty.py    the regularized contrastive loss of a batch
    penalty_weight.py                    how the weight λ of the penalty is found
    stack_packing.py                     which models train together as one stack
    dispatch.py                          the entry: chooses device, stacks and processes, and calls the loop
    early_stopping.py                    how many steps to take, by the bits on held-out time
    loop.py                              the one training loop: chunks of steps, curves, checkpoints
    steps.py                             a chunk of steps; steps_eager.py on a CPU, steps_cuda_graph.py on a GPU
    adam.py, random_numbers.py           the optimizer and the random numbers of a stack
    checkpoints.py                       the state of a run in one file
    decoders.py                          small networks from the embedding back to the channels

A source decides what a batch is and what it costs; the loop never looks inside.
"""
