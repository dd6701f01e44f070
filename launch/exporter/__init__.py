"""Compiles a network of torchvision or of the user into a model file. Runs in the Python that has PyTorch."""
