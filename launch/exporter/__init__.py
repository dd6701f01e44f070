"""Turns a network of torchvision or of the user into a compiled model file. Runs in the Python that has PyTorch."""
