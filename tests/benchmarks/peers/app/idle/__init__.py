"""Clients that compute nothing, as a Flower app."""
