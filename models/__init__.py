"""The mathematics: data, nets, training, evaluation, and the methods; nothing here knows sockets or messages."""
