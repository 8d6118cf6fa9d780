//go:build js && wasm

// Command wasm is the simulated world with its lessons, for the page: it puts three functions into
// JavaScript's globals and waits to be called.
//
//	roceLessons()             JSON: chapter, chapterTitle, name, title of each lesson
//	rocePlay(name, changes)   plays a lesson; changes is JSON of world.Change: what happens to
//	                          packets. JSON: learn.Changed, or error
//	roceFilter(expression, packets)   JSON: places of the packets that it leaves, or error;
//	                          packets is JSON of the page's, or "": those of the call before
//
// Package page has it compiled and compressed, in world.gz: go generate ./trace/page.
package main

import (
	"encoding/json"
	"fmt"
	"syscall/js"

	"github.com/goroce/goroce/trace/learn"
	"github.com/goroce/goroce/trace/world"
)

// listed is a lesson in the list.
type listed struct {
	Chapter      string `json:"chapter"`
	ChapterTitle string `json:"chapterTitle"`
	Name         string `json:"name"`
	Title        string `json:"title"`
}

// played is a lesson that was played.
type played struct {
	*learn.Changed
	Error string `json:"error,omitempty"`
}

func main() {
	global := js.Global()
	global.Set("roceLessons", js.FuncOf(func(js.Value, []js.Value) any { return text(lessons()) }))
	global.Set("rocePlay", js.FuncOf(func(_ js.Value, args []js.Value) any {
		x, err := play(args[0].String(), args[1].String())
		if err != nil {
			x = &played{Error: err.Error()}
		}
		return text(x)
	}))
	var kept []filtered
	global.Set("roceFilter", js.FuncOf(func(_ js.Value, args []js.Value) any {
		return text(choose(args[0].String(), args[1].String(), &kept))
	}))
	global.Call("roceReady")
	select {}
}

// text is JSON. What is made here has a form in it.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal(played{Error: err.Error()})
	}
	return string(b)
}

func lessons() (all []listed) {
	for _, c := range learn.Chapters() {
		for _, l := range c.Lessons {
			all = append(all, listed{c.Name, c.Title, l.Name, l.Title})
		}
	}
	return all
}

// play plays a lesson, with changes and without: its text speaks of the latter.
func play(name, changes string) (*played, error) {
	l := learn.Find(name)
	if l == nil {
		return nil, fmt.Errorf("there is no lesson %q", name)
	}
	var list []world.Change
	if err := json.Unmarshal([]byte(changes), &list); err != nil {
		return nil, fmt.Errorf("changes: %w", err)
	}
	for _, c := range list {
		if err := c.Check(); err != nil {
			return nil, err
		}
	}
	return &played{Changed: l.Change(list)}, nil
}
