package lab

// The guest's recipe as tables: what goes into its image. To add a program, add its package and its
// name here; shared libraries are found by themselves. A change of any table gives the image a new
// key, so it is built anew.

// recipeVersion changes when the code that turns the tables into an image changes what comes out of
// them.
const recipeVersion = 1

// An archive is one cpio archive of the guest's initramfs: Debian packages and what is taken from
// them.
type archive struct {
	Name     string   // file name in the cache
	Packages []string // Debian packages; what they depend on comes by itself
	Take     []string // patterns of files (path.Match); ELF files bring their shared objects
	Whole    []string // patterns of folders taken with all below
	Drop     []string // names of folders inside Whole that are left out
}

// baseArchive holds the RDMA programs. Paths are those after the merge of /bin, /sbin, /lib into
// /usr.
var baseArchive = archive{
	Name: "base.cpio",
	Packages: []string{
		"busybox-static",    // small tools
		"coreutils",         // env, nice, nohup, stdbuf, timeout: see applets
		"dash",              // sh
		"findutils",         // find, xargs
		"ibverbs-providers", // librxe, libsiw
		"ibverbs-utils",     // ibv_devinfo, ibv_*_pingpong
		"iproute2",          // ip, rdma, tc, ss
		"perftest",          // ib_write_bw and its family
		"rdmacm-utils",      // rping, ucmatose, udaddy, rdma_client
	},
	Take: []string{
		"usr/bin/busybox", "usr/bin/dash", "usr/bin/find", "usr/bin/xargs",
		"usr/bin/env", "usr/bin/nice", "usr/bin/nohup", "usr/bin/stdbuf", "usr/bin/timeout",
		"usr/libexec/coreutils/libstdbuf.so",
		"usr/bin/ib_*", "usr/bin/ibv_*", "usr/bin/raw_ethernet_*",
		"usr/bin/cmtime", "usr/bin/mckey", "usr/bin/rcopy", "usr/bin/rping", "usr/bin/rdma_*",
		"usr/bin/riostream", "usr/bin/rstream", "usr/bin/ucmatose", "usr/bin/udaddy", "usr/bin/udpong",
		"usr/bin/ip", "usr/bin/ss", "usr/bin/rdma", "usr/sbin/tc",
		// glibc opens it by name when a thread is cancelled or exits.
		"usr/lib/x86_64-linux-gnu/libgcc_s.so.1",
		"usr/lib/x86_64-linux-gnu/tc/*.dist", // delay distributions of netem
		"usr/lib/x86_64-linux-gnu/libibverbs/librxe-*.so", "usr/lib/x86_64-linux-gnu/libibverbs/libsiw-*.so",
		"usr/lib/x86_64-linux-gnu/rsocket/*",
		"etc/libibverbs.d/rxe.driver", "etc/libibverbs.d/siw.driver",
	},
}

// pythonArchive holds python3 with pyverbs. It is a second archive because it is several times the
// first one's size and most guests do without: see Config.Python.
var pythonArchive = archive{
	Name:     "python.cpio",
	Packages: []string{"python3-pyverbs", "python3-minimal"},
	Take:     []string{"usr/bin/python3", "usr/bin/python3.*"},
	Whole:    []string{"usr/lib/python3.*", "usr/lib/python3/dist-packages/pyverbs"},
	Drop: []string{"__pycache__", "config-3.*", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tests",
		"tkinter"},
}

// archives are the archives of an image, in the order in which the kernel unpacks them.
var archives = []archive{baseArchive, pythonArchive}

// A module is a kernel module that the guest loads at boot, after those that it depends on.
type module struct {
	Name     string
	Optional bool // some kernels have no such module and need none
}

var modules = []module{
	{Name: "virtio_pci"},
	{Name: "virtio_net"},
	{Name: "virtio_console"},
	// rdma_rxe asks for "crc32" by name: no dependency says so.
	{Name: "crc32_generic", Optional: true},
	{Name: "crc32_pclmul", Optional: true}, // the same, fast
	{Name: "ib_uverbs"},
	{Name: "rdma_ucm"},
	{Name: "rdma_rxe"},
	{Name: "crc32c_generic", Optional: true}, // siw asks for "crc32c" by name
	{Name: "siw", Optional: true},            // Debian's kernels are built without it
	{Name: "veth"},
	{Name: "ifb"},
	{Name: "sch_netem"},
	{Name: "sch_ingress"},
	{Name: "cls_matchall"},
	{Name: "act_mirred"},
}

// links are the names that stand for other programs, made at boot: {program, names}.
//
// Busybox runs its own ip, tc and others in preference to the real ones when it starts a program,
// so nothing that starts programs (sh, env, find, nice, timeout, xargs) may be busybox.
var links = map[string][]string{
	"/usr/bin/dash": {"sh"},
	"/usr/bin/busybox": {
		"awk", "base64", "basename", "cat", "chmod", "cmp", "cp", "cut", "date", "dd", "df", "diff", "dirname", "dmesg",
		"du", "echo", "expr", "false", "free", "grep", "head", "hexdump", "hostname", "id", "kill", "killall", "ln",
		"ls", "lsmod", "md5sum", "mkdir", "mkfifo", "mknod", "mount", "mv", "nc", "netstat", "nproc", "od", "pgrep",
		"pidof", "ping", "ping6", "pkill", "printf", "ps", "pwd", "readlink", "rm", "rmdir", "sed", "seq", "sha256sum",
		"sleep", "sort", "stat", "stty", "sysctl", "tail", "tar", "tee", "test", "top", "touch", "tr", "true", "umount",
		"uname", "uniq", "uptime", "vi", "wc", "which", "yes",
	},
}

// kernelSeries are the kernels to look for, the wanted one first: rxe changed much between them.
// Config.Kernel asks for another.
var kernelSeries = []string{"6.12", "6.1"}
