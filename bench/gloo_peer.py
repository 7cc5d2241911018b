"""One rank of gloo, through Debian's python3-torch, for dlflow-bench.

    gloo_peer.py RANK RANKS ADDRESS PORT

Says "ready" once all ranks have met, or why not; then answers each line "ELEMENTS CALLS" with the seconds that summing so
many fp32 numbers took, the median of so many calls. An empty line ends it.
"""

import datetime
import sys
import time


def main():
    rank, ranks, address, port = sys.argv[1:]
    try:
        import torch
        from torch import distributed
        distributed.init_process_group("gloo", init_method=f"tcp://{address}:{port}", rank=int(rank), world_size=int(ranks),
                                       timeout=datetime.timedelta(seconds=20))
    except Exception as error:  # whatever keeps it from being measured is what there is to say
        print("no gloo:", str(error).splitlines()[0], flush=True)
        return
    print("ready", flush=True)
    for line in sys.stdin:
        if not line.strip():
            return
        elements, calls = map(int, line.split())
        values, seconds = torch.empty(elements), []
        for _ in range(calls + 1):  # the first touches memory
            values.fill_(float(int(rank) + 1))
            distributed.barrier()
            start = time.perf_counter()
            distributed.all_reduce(values)
            seconds.append(time.perf_counter() - start)
        if elements > 0 and values[-1] != sum(range(1, int(ranks) + 1)):
            print(f"gloo gave {values[-1]}", flush=True)
            return
        print(sorted(seconds[1:])[calls // 2], flush=True)


main()
