package learn

// The lesson of memory that is unmapped. Where there is no such memory, as in a browser, its
// scenario does nothing: it is for the terminal.

import "github.com/goroce/goroce/trace/world"

var unmapped = Lesson{
	Name: "unmapped", Title: "Memory that is unmapped while it is registered", Terminal: true,
	Text: `
B has mapped a page (mmap), registered it, and given A its key. {1 RDMA_WRITE_ONLY} goes well. Then B's program unmaps the page and forgets
ibv_dereg_mr. Here it takes away all access to it, which comes to the same, and keeps others from mapping something there. {3 RDMA_WRITE_ONLY} names a key that is valid and memory that is not there.

Our device touches memory as the program does, so it meets a fault. It does not crash. It answers {4 NAK remote access error}: A has
{A 2 REM_ACCESS_ERR}, and B has {B event QP_ACCESS_ERR}.

That is luck. If something else had been mapped at the same address meanwhile, the WRITE would have gone there, and nobody would have noticed.`,
	NIC: `
A NIC notices nothing at all. The driver has pinned the pages, so they stay in memory, although the program has them no more. The NIC goes on
writing into them, A's completions say success, and B's program never sees the data: what it maps now is other pages. Only with on-demand
paging (IBV_ACCESS_ON_DEMAND) the NIC follows what the program maps, and refuses as here.`,
	Question: "What makes it right?", Answers: []string{"ibv_dereg_mr before munmap", "munmap before ibv_dereg_mr",
		"mlock"}, Right: 0,
	Why: "When ibv_dereg_mr has returned no device touches the memory any more. From then on it may be " +
		"unmapped, freed or used for something else.",
	Scenario: func(w *world.World) { w.AddHost("A"); w.AddHost("B") },
}
