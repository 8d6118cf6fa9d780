"""A program that forks, by Debian's pyverbs: it exits with 0 if all is as it should be.

Stages: a queue pair; processes that are forked before a device is open, each of which opens its
own, and that talk; then a device is open here, and others are forked, which have none of it.
"""
import errno
import multiprocessing

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute, GID
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import RecvWR, SendWR, SGE

SIZE = 1 << 16
forking = multiprocessing.get_context("fork")


class End:
    """A queue pair on a device, with memory."""

    def __init__(self, name):
        self.context = Context(name=name)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 16)
        self.mr = MR(self.pd, SIZE, e.IBV_ACCESS_LOCAL_WRITE)
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap()))

    def address(self):
        return self.qp.qp_num, self.context.query_gid(1, 0).gid

    def connect(self, number, gid):
        attr = QPAttr(port_num=1)
        attr.dest_qp_num, attr.path_mtu = number, e.IBV_MTU_1024
        attr.max_dest_rd_atomic = attr.max_rd_atomic = 1
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
        attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=GID(gid), sgid_index=0))
        self.qp.to_rts(attr)

    def receive(self):
        self.qp.post_recv(RecvWR(sg=[SGE(self.mr.buf, SIZE, self.mr.lkey)], num_sge=1))

    def send(self, content):
        self.mr.write(content, len(content))
        sge = SGE(self.mr.buf, len(content), self.mr.lkey)
        self.qp.post_send(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[sge], send_flags=e.IBV_SEND_SIGNALED))

    def done(self):
        """The bytes of the next completion."""
        while True:
            n, list = self.cq.poll()
            if n:
                assert list[0].status == e.IBV_WC_SUCCESS, list[0]
                return list[0].byte_len


def content(n):
    return bytes(i * n % 251 for i in range(SIZE))


def talk(name, pipe, n):
    """What a process does that has the device for itself: n is its own, 3 - n the other's."""
    end = End(name)
    pipe.send(end.address())
    end.connect(*pipe.recv())
    end.receive()
    pipe.send("ready")
    pipe.recv()
    if n == 1:
        end.send(content(1))
        end.done()
        end.receive()
        pipe.send("receives")
    assert end.done() == SIZE
    assert end.mr.read(SIZE, 0) == content(3 - n)
    if n == 2:
        pipe.recv()
        end.send(content(2))
        end.done()
    pipe.send("over")  # who ends takes its queue pair along
    pipe.recv()


def refused(end, name):
    """What is left of a device in a process that was forked while it was open."""
    for call in (end.context.query_device, lambda: PD(end.context), lambda: Context(name=name)):
        try:
            call()
        except PyverbsRDMAError as err:
            assert err.error_code == errno.EIO, err
        else:
            raise AssertionError("a device of another process could be used")
    assert end.mr.read(SIZE, 0) == content(3)  # memory is memory
    end.mr.write(content(4), SIZE)  # of its own


def forked(*works):
    """Runs each in a process of its own, until all have ended well."""
    processes = [forking.Process(target=work, args=args) for work, *args in works]
    for p in processes:
        p.start()
    return processes


def joined(processes):
    for p in processes:
        p.join()
        assert p.exitcode == 0, p


names = [d.name.decode() for d in get_device_list()]
ends = forking.Pipe()
joined(forked((talk, names[0], ends[0], 1), (talk, names[1], ends[1], 2)))

end = End(names[0])
end.connect(*end.address())
end.mr.write(content(3), SIZE)
children = forked(*[(refused, end, names[1])] * 3)
end.receive()
end.send(content(3))
end.done(), end.done()
assert end.mr.read(SIZE, 0) == content(3)
joined(children)
end.receive()
end.send(content(3))
end.done(), end.done()
assert end.mr.read(SIZE, 0) == content(3)
print("all as it should be")
