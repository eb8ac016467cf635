"""The fitted model: goodness of fit, the estimators, several sessions, saving and loading."""
