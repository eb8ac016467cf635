"""The fitted model: goodness of fit, the estimators, several sessions, saving and loading.

    parameters.py, input_checks.py      what a user may set, and what can be wrong with it or with the data
    fitting.py, fitted.py               from a recording to a fitted model, and what such a model is
    number_of_seeds.py                  whether seeds agree, and what a fit has spent, in words
    history.py                          the curves of training
    goodness_of_fit.py                  how much each space tells on held-out time
    estimator.py                        `ContrastiveEmbedding`: fit, transform, score, attribute
    reporting.py                        how a model is shown: `model.report`, and a table in a notebook
    sessions/                           `SharedEmbedding`: several recordings in one embedding
    generative_process_inversion.py     encoders of a generative process, scored against its latents
    saving.py, loading.py               a fitted estimator to a folder and back
    run_folder.py                       how such a folder is laid out
    stored_checks.py                    what must hold of what is in it

An estimator is what users set up and fit; a fitted model is what a fit leaves.
"""
