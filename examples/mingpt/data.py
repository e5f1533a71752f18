"""The text: Python's own documentation, as shipped in `pydoc_data.topics`, one token a character."""

from pydoc_data.topics import topics

import torch


class Corpus:
    """Encoded text, its vocabulary, and a split: the first 90 % trains, the rest validates."""

    def __init__(self):
        text = "\n".join(topics[name] for name in sorted(topics))
        self.vocabulary = sorted(set(text))
        self._index = {char: i for i, char in enumerate(self.vocabulary)}
        tokens = self.encode(text)
        self.train, self.val = tokens.split([len(tokens) * 9 // 10, len(tokens) - len(tokens) * 9 // 10])
        frequency = tokens.bincount().double() / len(tokens)
        self.unigram_entropy = torch.special.entr(frequency).sum().item()
        """Nats a character: the loss of the best model that looks at no context."""

    def __len__(self):
        return len(self.train) + len(self.val)

    def encode(self, text):
        try:
            return torch.tensor([self._index[char] for char in text])
        except KeyError as error:
            raise ValueError(f"character {error} does not occur in the training text") from None

    def decode(self, tokens):
        return "".join(self.vocabulary[token] for token in tokens)


def random_batch(tokens, batch, context, generator):
    """Windows at random places, as (inputs, targets), drawn on the CPU whatever device trains."""
    starts = torch.randint(len(tokens) - context, (batch, 1), generator=generator)
    window = tokens[starts + torch.arange(context + 1)]
    return window[:, :-1].contiguous(), window[:, 1:].contiguous()


def sequential_batches(tokens, batch, context):
    """All of the text, in order, as (inputs, targets) of one shape; the tail that does not fill a batch is left out."""
    count = (len(tokens) - 1) // (batch * context)
    if count == 0:
        raise ValueError(f"a batch of {batch} windows of {context} does not fit into {len(tokens)} tokens")
    used = count * batch * context
    inputs, targets = tokens[:used], tokens[1 : used + 1]
    return list(zip(inputs.view(count, batch, context), targets.view(count, batch, context), strict=True))
