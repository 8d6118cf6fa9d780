package page

// The parts of the page put together: as one file, in which all is inline and the policy names the
// hash of every script, or as a document whose parts are served beside it.

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/world"
)

//go:embed assets
var assets embed.FS

// scripts are the player's files, in the order in which they are read.
var scripts = []string{"dom", "layout", "ladder", "packet", "ends", "clock", "source", "told", "lessons", "verdict",
	"graphs", "expression", "main"}

// asset returns a file of the player.
func asset(name string) string {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is embedded, or the program is not whole
	}
	return string(text)
}

// style is all style sheets in one.
func style() string { return asset("page.css") + asset("verdict.css") }

// player is all scripts in one.
func player() string {
	var all strings.Builder
	for _, s := range scripts {
		all.WriteString(asset(s + ".js"))
	}
	return all.String()
}

var document = template.Must(template.New("page").Parse(asset("index.html")))

// given says to the player what there is.
type given struct {
	Static bool   `json:"static"`           // all of it is in this file
	File   bool   `json:"file"`             // a capture
	Live   bool   `json:"live"`             // packets as they come
	Count  int    `json:"count"`            // packets at once
	Study  bool   `json:"study"`            // what was found of the whole capture
	Filter string `json:"filter,omitempty"` // that the user began with
}

// maxSize is how large a page that is one file may be.
const maxSize = 6 << 20

// parts are what the document is filled with.
type parts struct {
	Title               string
	Policy              string
	Style, Data, Script template.HTML
}

// fixed is what every policy says: nothing may come from elsewhere, nothing may be sent anywhere.
const fixed = "; base-uri 'none'; form-action 'none'"

// served is the policy of the page that a Site serves.
const served = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'" + fixed

// inline is a style or a script in the document, and the hash by which the policy knows it.
func inline(tag, text string) (template.HTML, string) {
	sum := sha256.Sum256([]byte(text))
	return template.HTML("<" + tag + ">" + text + "</" + tag + ">"),
		" 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// data is something that is not run. Neither JSON as Go writes it nor base64 can end the element.
func data(id, kind string, text []byte) template.HTML {
	return template.HTML(`<script type="` + kind + `" id="` + id + `">` + string(text) + "</script>\n")
}

// Write writes the page as one file that opens from disk: with a capture, or without (nil), then it
// has the lessons only.
func Write(out io.Writer, w *Window) error {
	g := given{Static: true, File: w != nil}
	p := parts{Title: "RoCE lessons"}
	look, styleHash := inline("style", style())
	script, scriptHash := inline("script", player())
	support, supportHash := inline("script", worldSupport())
	program := data("world", "text/plain", encoded(worldProgram()))
	if w != nil {
		p.Title, g.Count, g.Study = trace.Printable(w.Title), w.room(), w.Study != nil
		room := maxSize - len(look) - len(script) - len(support) - len(program) - 1<<16
		captured, err := w.data(room)
		if err != nil {
			return err
		}
		p.Data += captured
	}
	about, err := json.Marshal(g)
	if err != nil {
		return err
	}
	p.Data += data("given", "application/json", about) + program
	p.Style, p.Script = look, support+script
	p.Policy = "default-src 'none'; script-src" + supportHash + scriptHash +
		" 'wasm-unsafe-eval'; style-src" + styleHash + fixed
	return document.Execute(out, p)
}

// data is the window and the study for a page that is one file, with as many of the packets as
// there is room for.
func (w *Window) data(room int) (all template.HTML, err error) {
	if w.Study != nil {
		packed, err := compressed(func(z io.Writer) error {
			return json.NewEncoder(z).Encode(w.Study.verdict().withGraphs(w.Study))
		})
		if err != nil {
			return "", err
		}
		all = data("study", "text/plain", packed)
	}
	for p := w.play(true); ; {
		packed, err := compressed(p.encode)
		if err != nil {
			return "", err
		}
		n := len(p.Packets)
		if len(all)+len(packed) <= room || n == 0 {
			return all + data("capture", "text/plain", packed), nil
		}
		p.shorten(min(n-1, n*(room-len(all))/len(packed)*19/20))
	}
}

// shorten leaves the first n packets, and what was said until then.
func (p *play) shorten(n int) {
	p.Packets, p.More = p.Packets[:max(n, 0)], true
	last := int64(0)
	if n > 0 {
		last = p.Packets[n-1].Sent
	}
	p.Entries = slices.DeleteFunc(p.Entries, func(e world.Entry) bool { return e.Time > last })
}

// compressed is base64 of what is written, compressed.
func compressed(write func(io.Writer) error) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := write(z); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return encoded(b.Bytes()), nil
}

func encoded(b []byte) []byte { return base64.StdEncoding.AppendEncode(nil, b) }
