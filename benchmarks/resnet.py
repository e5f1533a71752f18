"""ResNet-18 in plain PyTorch, for the training benchmark: He et al. 2015, arXiv:1512.03385, table 1."""

from torch import nn
from torch.nn import functional as F

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # channels and the first block's stride; two blocks each


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut: (N, C, H, W) to (N, channels, H / stride, W / stride)."""

    def __init__(self, inputs, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet18(classes):
    """Images (N, 3, H, W) to logits (N, classes)."""
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for channels, stride in STAGES:
        layers += [Block(inputs, channels, stride), Block(channels, channels, 1)]
        inputs = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))
