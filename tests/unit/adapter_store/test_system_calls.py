"""The seccomp filter, decided call by call on every architecture it is made for."""

import errno

import pytest

from services.adapter_store.verification.system_calls import ARCHITECTURES, filter_program
from tests.support.bpf import ALLOW, KILL, decide

REFUSE = 0x00050000 | errno.EPERM
# From the kernel's system call tables.
NUMBERS = {
    "x86_64": {
        "read": 0, "pread64": 17, "munmap": 11, "brk": 12, "futex": 202, "exit_group": 231,
        "getrandom": 318, "clock_gettime": 228, "rt_sigreturn": 15, "madvise": 28,
        "mmap": 9, "mprotect": 10, "write": 1,
        "open": 2, "openat": 257, "openat2": 437, "execve": 59, "execveat": 322, "fork": 57,
        "clone": 56, "clone3": 435, "socket": 41, "connect": 42, "ptrace": 101, "kill": 62,
        "tgkill": 234, "prctl": 157, "seccomp": 317, "unlinkat": 263, "pwrite64": 18, "writev": 20,
        "io_uring_setup": 425, "bpf": 321, "process_vm_readv": 310, "memfd_create": 319,
        "setuid": 105, "ioctl": 16, "pkey_mprotect": 329, "shmat": 30, "userfaultfd": 323,
    },
    "aarch64": {
        "read": 63, "pread64": 67, "munmap": 215, "brk": 214, "futex": 98, "exit_group": 94,
        "getrandom": 278, "clock_gettime": 113, "rt_sigreturn": 139, "madvise": 233,
        "mmap": 222, "mprotect": 226, "write": 64,
        "openat": 56, "openat2": 437, "execve": 221, "execveat": 281, "clone": 220, "clone3": 435,
        "socket": 198, "connect": 203, "ptrace": 117, "kill": 129, "tgkill": 131, "prctl": 167,
        "seccomp": 277, "unlinkat": 35, "pwrite64": 68, "writev": 66, "io_uring_setup": 425,
        "bpf": 280, "process_vm_readv": 270, "memfd_create": 279, "setuid": 146, "ioctl": 29,
        "pkey_mprotect": 288, "shmat": 196, "userfaultfd": 282,
    },
}  # fmt: skip
PLAIN = {
    "read", "pread64", "munmap", "brk", "futex", "exit_group", "getrandom", "clock_gettime",
    "rt_sigreturn", "madvise",
}  # fmt: skip
BY_ARGUMENT = {"mmap", "mprotect", "write"}
PROT_WRITE, PROT_EXEC = 2, 4


@pytest.fixture(params=sorted(ARCHITECTURES))
def filtered(request):
    architecture = ARCHITECTURES[request.param]
    program = filter_program(architecture)

    def decision(name, *arguments):
        number = NUMBERS[request.param][name]
        return decide(program, architecture.audit_code, number, *arguments)

    decision.names = NUMBERS[request.param].keys()
    return decision


def test_only_what_computing_needs_is_allowed(filtered):
    for name in filtered.names - BY_ARGUMENT:
        assert filtered(name) == (ALLOW if name in PLAIN else REFUSE), name


def test_memory_is_given_but_not_to_be_executed(filtered):
    for name in ("mmap", "mprotect"):
        assert filtered(name, 0, 4096, PROT_WRITE) == ALLOW
        assert filtered(name, 0, 4096, PROT_WRITE | PROT_EXEC) == REFUSE
        assert filtered(name, 0, 4096, PROT_EXEC) == REFUSE


def test_only_standard_output_is_written_to(filtered):
    assert filtered("write", 1) == ALLOW
    assert [filtered("write", descriptor) for descriptor in (0, 2, 3, 2**32 - 1)] == [REFUSE] * 4


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_calls_of_another_architecture_end_the_process(name):
    program = filter_program(ARCHITECTURES[name])
    i386 = 0x40000003
    assert {decide(program, i386, number) for number in range(512)} == {KILL}


def test_the_other_numbering_of_the_same_processor_is_refused():
    x32_bit = 0x40000000
    architecture = ARCHITECTURES["x86_64"]
    program = filter_program(architecture)
    answers = {decide(program, architecture.audit_code, x32_bit | n) for n in range(512)}
    assert answers == {REFUSE}
