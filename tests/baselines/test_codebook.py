import pytest
import torch

from torch_grama.baselines.goat import Codebook


def test_assigns_the_nearest_centre_in_normalised_space():
    book = Codebook(5, 3).double()
    book.running_mean.copy_(torch.tensor([1.0, -2.0, 0.5]))
    book.running_var.copy_(torch.tensor([4.0, 0.25, 1.0]))
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    normed = (x - book.running_mean) / (book.running_var + 1e-5).sqrt()
    assert torch.equal(book.assign(x), torch.cdist(normed, book.centroids).argmin(1))
    scale = (book.running_var + 1e-5).sqrt()
    torch.testing.assert_close(book.decode(), book.centroids * scale + book.running_mean)


def test_an_update_is_the_moving_average_of_counts_and_sums():
    book = Codebook(4, 2, decay=0.9, momentum=0.2).double()
    old = {name: value.clone() for name, value in book.named_buffers()}
    x = 3 + torch.randn(30, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    normed = (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt()
    nearest = torch.cdist(normed, old["centroids"]).argmin(1)
    book.update(x)
    torch.testing.assert_close(book.running_mean, 0.2 * x.mean(0))
    torch.testing.assert_close(book.running_var, 0.8 + 0.2 * x.var(0))
    for k in range(4):
        own = normed[nearest == k]
        count = 0.9 + 0.1 * own.size(0)
        total = 0.9 * old["centroids"][k] + 0.1 * own.sum(0)
        torch.testing.assert_close(book.counts[k].item(), count)
        torch.testing.assert_close(book.centroids[k], total / count)


def test_centres_find_clusters_far_apart():
    generator = torch.Generator().manual_seed(0)
    middles = torch.tensor([[-6.0, 0.0], [0.0, 6.0], [6.0, -6.0]])
    book = Codebook(3, 2, decay=0.8)
    book.centroids.copy_(0.3 * middles / 6)
    book.totals.copy_(book.centroids)
    for _ in range(100):
        x = middles.repeat(20, 1) + 0.1 * torch.randn(60, 2, generator=generator)
        book.update(x)
    assert torch.allclose(book.decode(), middles, atol=0.3)
    assert book.assign(middles).tolist() == [0, 1, 2]


def test_a_centre_that_nobody_chooses_stays():
    book = Codebook(2, 2, decay=0.5)
    book.centroids.copy_(torch.tensor([[0.0, 0.0], [50.0, 50.0]]))
    book.totals.copy_(book.centroids)
    for _ in range(200):
        book.update(torch.randn(10, 2))
    assert torch.allclose(book.centroids[1], torch.tensor([50.0, 50.0]))
    assert book.centroids.isfinite().all()


def test_one_point_changes_nothing():
    book = Codebook(2, 2)
    before = book.centroids.clone()
    book.update(torch.ones(1, 2))
    assert torch.equal(before, book.centroids)


def test_decay_is_checked():
    with pytest.raises(ValueError, match="'decay'"):
        Codebook(2, 2, decay=1.0)
    assert str(Codebook(4, 3)) == "Codebook(4, 3)"
