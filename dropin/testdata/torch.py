"""A job of PyTorch: torch.py BACKEND, with ranks that sum, gather and send tensors, and compare.

By "mpi" mpirun starts the ranks. By "gloo" this program does, as processes of one machine.
"""
import sys

import torch
import torch.distributed as dist

RANKS = 3


def job(rank, ranks):
    for size in (1, 1000, 300_000):
        mine = torch.arange(size, dtype=torch.float64) + rank
        total = mine.clone()
        dist.all_reduce(total)
        assert torch.equal(total, ranks * torch.arange(size, dtype=torch.float64) + ranks * (ranks - 1) / 2), size
        all_of_them = [torch.empty_like(mine) for _ in range(ranks)]
        dist.all_gather(all_of_them, mine)
        for other, theirs in enumerate(all_of_them):
            assert torch.equal(theirs, mine - rank + other), (size, other)
        got = torch.empty_like(mine)
        sending = dist.isend(mine, (rank + 1) % ranks)
        dist.recv(got, (rank - 1) % ranks)
        sending.wait()
        assert torch.equal(got, mine - rank + (rank - 1) % ranks), size
    if rank == 0:
        print("right: tensors of", ranks, "ranks", flush=True)


def gloo(rank):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29531", rank=rank, world_size=RANKS)
    job(rank, RANKS)
    dist.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1] == "mpi":
        dist.init_process_group("mpi")
        job(dist.get_rank(), dist.get_world_size())
    else:
        torch.multiprocessing.spawn(gloo, nprocs=RANKS)
