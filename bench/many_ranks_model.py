"""The cost of a group of P ranks on a cluster, simulated message by message: python3 bench/many_ranks_model.py [P...]

Model: nodes of RANKS_OF_NODE ranks. A message takes HALF_ROUND_TRIP, and its bytes pass the link of its node at BANDWIDTH, which the
ranks of a node share. A rank handles a message in HANDLING. Each action of a rank is late by an exponentially distributed time of mean LATE,
and in one of SELDOM cases by one of mean LONG: other programs, interrupts, page faults. Nothing is lost, and switches have no limit."""

import math
import random
import statistics
import sys

RANKS_OF_NODE = 64
HALF_ROUND_TRIP = 15e-6  # s, 10 Gbit/s Ethernet
BANDWIDTH = 1.25e9  # bytes per second of each node
HANDLING = 20e-6  # s, a system call on each side
LATE, LONG, SELDOM = 20e-6, 5e-3, 1000
ENTRY = 300  # bytes of each rank in the list of addresses
MEMORY = 5e9  # bytes per second that a rank adds up
CHILDREN = 32  # of each rank in the tree of the watch
BEAT, TIME_TO_DIE = 0.1, 0.05  # s
SUM = 1 << 20  # bytes


def late(dice):
    return dice.expovariate(1 / LATE) + (dice.expovariate(1 / LONG) if dice.randrange(SELDOM) == 0 else 0)


def hop(dice, size=0):
    return HALF_ROUND_TRIP + 2 * HANDLING + size / BANDWIDTH + late(dice)


def meet(ranks, dice):
    """The time at which each rank has the list: rank 0 receives from one rank after the other, then a binomial tree distributes the list."""
    times = [0.0] * ranks
    for _ in range(1, ranks):
        times[0] += 4 * hop(dice)  # the token, its answer, the rank's own address, its receipt
    for rank in range(ranks):
        step = 1 << rank.bit_length()
        while rank + step < ranks:
            times[rank] += 2 * hop(dice) + ENTRY * ranks / BANDWIDTH
            times[rank + step] = times[rank]
            step *= 2
    return times


def rounds(times, partner, cost):
    return [max(times[rank], times[partner(rank)]) + cost() for rank in range(len(times))]


def barrier(times, dice, hops):
    for k in range((len(times) - 1).bit_length()):
        times = rounds(times, lambda rank: (rank - (1 << k)) % len(times), lambda: hops * hop(dice))
    return times


def all_reduce(ranks, dice):
    """Seconds for a sum: shared memory on each node, Rabenseifner's algorithm between nodes, one slice for each rank of a node."""
    nodes, times = ranks // RANKS_OF_NODE, [late(dice) for _ in range(ranks)]
    on_node = SUM / MEMORY + 2 * LATE  # each rank adds its share of all buffers
    slowest = [max(times[node * RANKS_OF_NODE:(node + 1) * RANKS_OF_NODE]) + on_node for node in range(nodes)]
    slices = [slowest[rank // RANKS_OF_NODE] for rank in range(ranks)]
    for half in range(2):
        for k in range(int(math.log2(nodes))):
            size = SUM / 2 ** (k + 1)  # of all slices of a node, whose ranks share the link
            slices = rounds(slices, lambda rank: rank ^ (RANKS_OF_NODE << k), lambda: hop(dice, size))
    return max(slices) + on_node


def named(ranks, dice):
    """Seconds from the death of the rank farthest from rank 0 until all ranks are informed: up the tree, decided, down the tree."""
    depth, rank = 0, ranks - 1
    while rank > 0:
        depth, rank = depth + 1, (rank - 1) // CHILDREN
    down = [0.0] * ranks
    for rank in range(1, ranks):
        down[rank] = down[(rank - 1) // CHILDREN] + hop(dice) + (rank - 1) % CHILDREN * HANDLING
    return sum(hop(dice) for _ in range(depth)) + TIME_TO_DIE + BEAT + max(down)


def main():
    print("ranks  meet s  barrier ms  1 MiB ms  named s  mesh connections  ours a rank  pulses to rank 0, MB/s")
    for ranks in [int(word) for word in sys.argv[1:]] or [64, 256, 512, 1024, 4096]:
        results = []
        for seed in range(9):
            dice = random.Random(seed)
            times = meet(ranks, dice)
            start = max(times)
            first = max(barrier(times, dice, 4)) - start  # including the connection that each message needs
            results.append((start, first * 1e3, all_reduce(ranks, dice) * 1e3, named(ranks, dice)))
        start, first, summed, seconds = (statistics.median(column) for column in zip(*results))
        own = 2 * (ranks - 1).bit_length() + CHILDREN + 1
        print(f"{ranks:5}  {start:6.2f}  {first:10.2f}  {summed:8.2f}  {seconds:7.2f}  {ranks * (ranks - 1) // 2:16}  {own:11}"
              f"  {10 * min(ranks, 128) * 92 / 1e6:.2f}")


if __name__ == "__main__":
    main()
