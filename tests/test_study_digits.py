"""The images that the studies of digits train on: scikit-learn's, and SVHN's from files of its format."""

import _digits
import numpy as np
import pytest
import scipy.io
import torch

import tasksym as ts


@pytest.fixture
def content():
    """What a small file of SVHN's cropped digits holds."""
    rng = np.random.default_rng(0)
    X = rng.integers(256, size=(32, 32, 3, 12), dtype=np.uint8)
    X[..., 0], X[..., 1] = 255, 0
    return {"X": X, "y": np.array([10, *range(1, 11), 3], dtype=np.uint8)[:, None]}


@pytest.fixture
def write(tmp_path):
    def write(name="train_32x32.mat", **variables):
        scipy.io.savemat(tmp_path / name, variables, do_compression=True)
        return tmp_path / name

    return write


def test_the_digits_are_apart_in_range_and_framed():
    train, test = _digits.digits(border=2)
    assert train.pixels.shape == (1437, 12, 12) and test.pixels.shape == (360, 12, 12)
    assert train.pixels.dtype == torch.float32 and train.labels.dtype == torch.int64
    for images in (train, test):
        assert images.pixels.min() == 0 and images.pixels.max() == 1
        inner = images.pixels[:, 2:-2, 2:-2]
        assert torch.isclose(images.pixels.sum(), inner.sum())
        assert set(images.labels.tolist()) == set(range(10))
        assert set(images.of([3, 5]).labels.tolist()) == {3, 5}
    whole = torch.cat([train.pixels, test.pixels]).flatten(1)
    assert len(torch.unique(whole, dim=0)) > 1790  # hardly two alike, so that none is in both


def test_second_moment_is_the_mean_of_outer_products():
    train, _ = _digits.digits()
    lifted = np.concatenate([np.ones((len(train.labels), 1)), train.pixels.flatten(1).numpy()], axis=1)
    np.testing.assert_allclose(train.second_moment(), lifted.T @ lifted / len(lifted), atol=1e-10)


def test_svhn_is_read_as_grey_with_ten_for_zero(write, content):
    images = _digits.svhn(write(**content))
    assert images.pixels.shape == (12, 32, 32) and images.pixels.dtype == torch.float32
    assert images.labels.tolist() == [0, *range(1, 10), 0, 3]
    assert torch.allclose(images.pixels[0], torch.ones(32, 32)) and not images.pixels[1].any()
    red, green, blue = content["X"][5, 7, :, 4] / 255
    assert np.isclose(images.pixels[4, 5, 7], 0.299 * red + 0.587 * green + 0.114 * blue, atol=1e-6)


def test_a_folder_with_both_files_replaces_the_digits(write, content, tmp_path):
    write("train_32x32.mat", **content)
    write("test_32x32.mat", X=content["X"][..., :5], y=content["y"][:5])
    train, test = _digits.read(tmp_path, border=2)
    assert len(train.labels) == 12 and len(test.labels) == 5
    assert len(_digits.read()[0].labels) == 1437


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no SVHN file .*train_32x32\.mat; cropped digits are in"):
        _digits.svhn(tmp_path / "train_32x32.mat")


def test_a_damaged_file_is_named(write, content, tmp_path):
    whole = write(**content).read_bytes()
    for part in (whole[: len(whole) // 2], b"not MATLAB's", b""):
        (tmp_path / "damaged.mat").write_bytes(part)
        with pytest.raises(ValueError, match=r"damaged\.mat is damaged, or no MATLAB file"):
            _digits.svhn(tmp_path / "damaged.mat")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"X": np.zeros((28, 28, 3, 12), np.uint8)}, r"X in .* must be uint8 of shape .* got uint8 \(28, 28, 3, 12\)"),
        ({"X": np.zeros((32, 32, 3, 12))}, "X in .* must be uint8 .* got float64"),
        ({"X": np.zeros((32, 32), np.uint8)}, "X in .* must be uint8"),
        ({"y": np.ones((11, 1), np.uint8)}, r"y in .* must have shape \(12, 1\), .* got \(11, 1\)"),
        ({"y": np.zeros((12, 1), np.uint8)}, "must hold labels 1 to 10, where 10 is the digit 0; got 0 to 0"),
        ({"y": None}, "has no variable y"),
    ],
)
def test_what_is_not_svhn_is_refused(write, content, wrong, message):
    content = {name: value for name, value in (content | wrong).items() if value is not None}
    with pytest.raises(ValueError, match=message):
        _digits.svhn(write(**content))


def test_training_learns_on_a_copy_and_shipped_weights_come_back(tmp_path):
    from safetensors.torch import save_file

    train, test = _digits.digits()
    rng = np.random.default_rng(0)
    start = _digits.start(64, 32, rng)
    before = start.D.detach().clone()
    after = _digits.fit(start, train, 150, rng, learning_rate=5e-3, noise=0.05, cosine=True)
    assert torch.equal(start.D, before)
    assert _digits.right(start, test).mean() < 0.4 and _digits.right(after, test).mean() > 0.8

    layer = _digits.rounded(after)
    save_file(_digits.stored({"one": after, "two": start}), tmp_path / "layers.safetensors")
    again = _digits.shipped(tmp_path / "layers.safetensors")
    assert list(again) == ["one", "two"]
    assert ts.distance(layer, again["one"]) == 0 and layer.D.dtype == torch.float64
