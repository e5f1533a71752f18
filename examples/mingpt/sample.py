"""Text generation from a trained model."""

import torch


@torch.no_grad()
def generate(model, prompt, count, device, temperature=0.8):
    """Continue `prompt` (1-D token ids) by `count` tokens.

    The model always sees a window of its full context, filled up with zeros to the right, where causal attention does
    not look. So shapes never change, and nothing is read from the device before the end.
    """
    model.eval()
    context = model.config.context
    end = len(prompt) + count
    tokens = torch.zeros(1, max(end, context), dtype=torch.long)
    tokens[0, : len(prompt)] = prompt
    tokens = tokens.to(device)
    for position in range(len(prompt), end):
        start = max(position - context, 0)
        logits = model(tokens[:, start : start + context])[0, position - start - 1]
        tokens[0, position] = torch.multinomial(torch.softmax(logits / temperature, -1), 1)[0]
    return tokens[0, :end].tolist()
