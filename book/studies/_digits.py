"""Images of digits for the studies: scikit-learn's, which need no download, or SVHN's from its own files."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.io
import torch
from safetensors.torch import load_file
from sklearn.datasets import load_digits
from torch import Tensor

import tasksym as ts

CLASSES, TEST, SPLIT_SEED, BATCH = 10, 360, 0, 128
SVHN_SIDE, LUMA = 32, (0.299, 0.587, 0.114)  # weights of red, green and blue in grey (ITU-R BT.601)


class Images(NamedTuple):
    """Images (image, side, side), float32 in [0, 1], and their digits (image,), int64."""

    pixels: Tensor
    labels: Tensor

    def of(self, labels) -> Images:
        """Those that show one of some digits."""
        return self.some(torch.isin(self.labels, torch.tensor(list(labels))))

    def some(self, chosen: Tensor) -> Images:
        return Images(self.pixels[chosen], self.labels[chosen])

    def second_moment(self) -> np.ndarray:
        """E[x̃ x̃ᵀ] of x̃ = (1, x) over the images."""
        x = self.pixels.flatten(1).double().numpy()
        return ts.moment_matrix(x.mean(axis=0), np.cov(x.T, bias=True))


def digits(border: int = 0) -> tuple[Images, Images]:
    """The 1,797 digits of scikit-learn, 8 × 8, with ink 1 and an empty border: 1,437 for training and 360 for tests.

    The division is drawn once, and is the same for every seed.
    """
    data = load_digits()
    pixels = torch.from_numpy(data.images / 16).float()
    images = Images(torch.nn.functional.pad(pixels, (border,) * 4), torch.from_numpy(data.target).long())
    order = torch.from_numpy(np.random.default_rng(SPLIT_SEED).permutation(len(pixels)))
    return images.some(order[TEST:]), images.some(order[:TEST])


def svhn(path: str | Path) -> Images:
    """One file of the cropped digits of SVHN, such as train_32x32.mat, in grey.

    Parameters
    ----------
    path : str or Path
        A MATLAB file with X, uint8 (32, 32, 3, image), and y (image, 1), in which 10 stands for the digit 0. From
        http://ufldl.stanford.edu/housenumbers; this project does not ship it.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, it is none of MATLAB's or damaged, or holds something else.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no SVHN file {path}; cropped digits are in train_32x32.mat and test_32x32.mat")
    try:
        content = scipy.io.loadmat(path, variable_names=["X", "y"])
    except Exception as error:  # SciPy raises nearly anything on a damaged file
        raise ValueError(f"{path} is damaged, or no MATLAB file: {error}") from error
    if missing := {"X", "y"} - content.keys():
        raise ValueError(
            f"{path} has no variable {' and no '.join(sorted(missing))}; SVHN's cropped digits have X and y"
        )
    X, y = content["X"], content["y"]
    if X.ndim != 4 or X.shape[:3] != (SVHN_SIDE, SVHN_SIDE, 3) or X.dtype != np.uint8:
        raise ValueError(f"X in {path} must be uint8 of shape (32, 32, 3, image), got {X.dtype} {X.shape}")
    if y.shape != (X.shape[3], 1):
        raise ValueError(f"y in {path} must have shape ({X.shape[3]}, 1), one label for each image, got {y.shape}")
    if not np.isin(y, range(1, 1 + CLASSES)).all():
        raise ValueError(f"y in {path} must hold labels 1 to 10, where 10 is the digit 0; got {y.min()} to {y.max()}")
    grey = np.einsum("hwcn,c->nhw", X, np.array(LUMA, dtype=np.float32)) / 255
    return Images(torch.from_numpy(grey.clip(0, 1)), torch.from_numpy(y[:, 0].astype(np.int64) % 10))


def read(folder: str | Path | None = None, border: int = 0) -> tuple[Images, Images]:
    """For training and for tests: SVHN from a folder with its two files, or `digits` without one."""
    if folder is None:
        return digits(border)
    return svhn(Path(folder) / "train_32x32.mat"), svhn(Path(folder) / "test_32x32.mat")


def start(inputs: int, hidden: int, rng: np.random.Generator) -> ts.Bilinear:
    """A layer with ten outputs and uniform weights, of the size that PyTorch gives those of its linear layers."""
    shapes = (CLASSES, hidden), (hidden, 1 + inputs), (hidden, 1 + inputs)
    return ts.Bilinear(*(rng.uniform(-1, 1, shape) / np.sqrt(shape[1]) for shape in shapes)).float()


def fit(layer, images, steps, rng, *, learning_rate, decay=0.01, noise=0.0, cosine=False) -> ts.Bilinear:
    """A copy of the layer, trained further on cross-entropy by a fresh AdamW, in batches drawn with replacement.

    Parameters
    ----------
    layer : Bilinear
    images : Images
    steps : int
    rng : numpy Generator
        Draws batches and noise.
    learning_rate, decay : float
    noise : float
        Standard deviation of what is added to every pixel, anew in every batch.
    cosine : bool
        Whether the rate falls to zero over the steps.
    """
    layer = copy.deepcopy(layer)
    x, y = images.pixels.flatten(1), images.labels
    optimiser = torch.optim.AdamW(layer.parameters(), learning_rate, weight_decay=decay, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        some = torch.from_numpy(rng.integers(len(x), size=BATCH))
        batch = x[some]
        if noise:
            batch = batch + noise * torch.from_numpy(rng.standard_normal(batch.shape, dtype=np.float32))
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(layer(batch), y[some]).backward()
        optimiser.step()
        if cosine:
            schedule.step()
    return layer


@torch.no_grad()
def rounded(layer: ts.Bilinear) -> ts.Bilinear:
    """The layer with weights of half precision, as they are shipped, computing in float64."""
    return ts.Bilinear(*(W.half().double() for W in (layer.D, layer.L, layer.R)))


def stored(layers: dict[str, ts.Bilinear]) -> dict[str, Tensor]:
    """Half-precision weights of some layers, by their names, to be shipped."""
    return {f"{name}.{W}": getattr(layer, W).detach().half() for name, layer in layers.items() for W in "DLR"}


def shipped(path: str | Path) -> dict[str, ts.Bilinear]:
    """The layers of a file of `stored` weights."""
    tensors = load_file(path)
    names = dict.fromkeys(name.rsplit(".", 1)[0] for name in tensors)
    return {name: ts.Bilinear(*(tensors[f"{name}.{W}"].double() for W in "DLR")) for name in names}


@torch.no_grad()
def right(layer: ts.Bilinear, images: Images) -> np.ndarray:
    """Which images a layer gets right (image,)."""
    return (layer(images.pixels.flatten(1)).argmax(dim=1) == images.labels).numpy()
