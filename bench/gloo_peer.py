"""One rank of gloo, through PyTorch, for dlflow-bench.

    gloo_peer.py RANK RANKS ADDRESS PORT TYPE

Prints "ready" once all ranks have met, or the reason why they have not; then answers each line "ELEMENTS CALLS" with the
seconds to sum ELEMENTS numbers of TYPE (fp32, fp16, bf16, int32, int64), the median of CALLS calls. An empty line ends it.
"""

import datetime
import sys
import time


def number_of(rank):
    return rank + 1 if rank < 16 else 0  # their sum is exact in every type


def main():
    rank, ranks, address, port, type_name = sys.argv[1:]
    try:
        import torch
        from torch import distributed
        distributed.init_process_group("gloo", init_method=f"tcp://{address}:{port}", rank=int(rank), world_size=int(ranks),
                                       timeout=datetime.timedelta(seconds=20))
        numbers = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "int32": torch.int32, "int64": torch.int64}
        dtype = numbers[type_name]
        distributed.all_reduce(torch.zeros(1, dtype=dtype))  # some versions cannot sum bf16
    except Exception as error:  # any reason why it cannot be measured is reported
        print("no gloo:", str(error).splitlines()[0], flush=True)
        return
    print("ready", flush=True)
    for line in sys.stdin:
        if not line.strip():
            return
        elements, calls = map(int, line.split())
        values, seconds = torch.empty(elements, dtype=dtype), []
        for _ in range(calls + 1):  # the first one touches new memory
            values.fill_(number_of(int(rank)))
            distributed.barrier()
            start = time.perf_counter()
            distributed.all_reduce(values)
            seconds.append(time.perf_counter() - start)
        if elements > 0 and values[-1] != sum(map(number_of, range(int(ranks)))):
            print(f"gloo gave {values[-1]}", flush=True)
            return
        print(sorted(seconds[1:])[calls // 2], flush=True)


main()
