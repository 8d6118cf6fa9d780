// Package page is the page of the traces: packets as a ladder in a browser, each with its bytes and
// fields, and, of a simulated world, both ends' queues and memory at any time, and lessons in which
// a student drops or delays packets and sees what follows.
//
// It is one player, which is served ([Site]) or written as one file that opens from disk ([Write]).
// Nothing is fetched from elsewhere, there is no framework and no build step: assets has it all.
// The simulated world runs in the browser, as WebAssembly (folder wasm). A lesson is a walk
// (assets/steps.js) with a glossary (glossary.js), and what a learner does is kept (progress.js).
//
// The files, in reading order:
//
//	window.go   packets of a capture → what the page draws, as JSON
//	page.go     the parts of the page → one file
//	world.go    the program of the simulated world
//	site.go     the same served, and who may have it
//	live.go     packets as they come
//
// What comes from a capture is anybody's. It leaves here as JSON only, and becomes text there,
// never markup (assets/dom.js); a Content-Security-Policy lets nothing run but the page's scripts.
package page
