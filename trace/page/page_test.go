package page

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/qp/qptest"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/world"
)

// hostile is what somebody could write into a capture.
const hostile = "</script></style><script>alert('x')</script><img src=x onerror=alert(1)>\x1b[31m"

// fill puts the packets of a simulated world into a window, the second with a comment.
func fill(t testing.TB, w *Window) *Window {
	t.Helper()
	var c qptest.Capture
	require.NoError(t, qptest.NewPlan(3).Play(&c, nil, nil))
	src, err := trace.NewSource(bytes.NewReader(c.Bytes()))
	require.NoError(t, err)
	for {
		p, err := src.Next()
		if err == io.EOF {
			return w
		}
		require.NoError(t, err)
		if p.Number == 2 {
			p.Comment = hostile
		}
		if !w.Add(p) {
			return w
		}
	}
}

// embedded is the content of a data element.
func embedded(t *testing.T, document, id string) string {
	t.Helper()
	found := regexp.MustCompile(`(?s)<script type="[a-z/]+" id="` + id + `">(.*?)</script>`).FindStringSubmatch(document)
	require.NotNil(t, found, id)
	return found[1]
}

// TestWrite: everything is in the file, nothing is fetched, and nothing of the capture is markup.
func TestWrite(t *testing.T) {
	var out bytes.Buffer
	w := fill(t, &Window{Title: hostile, Count: 200})
	require.NoError(t, Write(&out, w))
	text := out.String()
	for _, bad := range []string{"<script>alert(", "<img", "\x1b", "ZgotmplZ", `src="`, `href="`, "url(", "@import", "unsafe-inline"} {
		require.False(t, strings.Contains(text, bad), bad)
	}
	require.True(t, strings.Contains(text, `Content-Security-Policy" content="default-src &#39;none&#39;; script-src &#39;sha256-`))

	packed, err := base64.StdEncoding.DecodeString(embedded(t, text, "capture"))
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	var p struct {
		Hosts   []host
		More    bool
		Packets []struct {
			world.Packet
			Remark string
		}
	}
	require.NoError(t, json.NewDecoder(z).Decode(&p))
	require.Len(t, p.Packets, 200)
	require.True(t, p.More)
	require.Contains(t, p.Packets[1].Remark, "<script>")
	require.NotContains(t, p.Packets[1].Remark, "\x1b")
	for _, x := range p.Packets {
		require.NotEmpty(t, x.Fields)
		require.NotEmpty(t, x.Label)
		require.Less(t, max(x.From, x.To), len(p.Hosts))
		require.LessOrEqual(t, len(x.Bytes), maxBytes+tailBytes)
	}
}

// TestNoMarkup: the player makes no markup of anything.
func TestNoMarkup(t *testing.T) {
	bad := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\('on|https?://`)
	for _, name := range append([]string{"index.html", "page.css"}, files()...) {
		found := bad.FindAllString(strings.Replace(strings.Replace(asset(name), "http://www.w3.org/2000/svg", "", 1),
			"; innerHTML occurs nowhere", "", 1), -1)
		require.Empty(t, found, name)
	}
}

func files() (names []string) {
	for _, s := range scripts {
		names = append(names, s+".js")
	}
	return names
}

// TestEveryAsset is in the list of scripts, and has a sensible length.
func TestEveryAsset(t *testing.T) {
	all, err := assets.ReadDir("assets")
	require.NoError(t, err)
	require.Len(t, all, len(scripts)+3) // the document and two style sheets
	for _, f := range all {
		require.LessOrEqual(t, strings.Count(asset(f.Name()), "\n"), 400, f.Name())
	}
}

// TestWindow: what is before From is analyzed, and not kept; what is behind is not looked at.
func TestWindow(t *testing.T) {
	all := fill(t, &Window{Count: MaxCount})
	part := fill(t, &Window{From: 100, Count: 50})
	require.Len(t, part.packets, 50)
	require.True(t, part.more)
	require.False(t, all.more)
	wrong := 0
	for i, p := range part.packets {
		want := all.packets[99+i]
		require.Equal(t, want.Wrong, p.Wrong, "packet %d", p.N)
		require.Equal(t, &want, part.open(p.N, p.Part))
		if p.Wrong != "" {
			wrong++
		}
	}
	require.Positive(t, wrong)
	require.Nil(t, part.open(99, 0))
	require.NotEmpty(t, part.columns)
}

// TestWrong: of a window of problems, they are those of a window of everything.
func TestWrong(t *testing.T) {
	var want []int
	for _, p := range fill(t, &Window{Count: MaxCount}).packets {
		if p.Wrong != "" {
			want = append(want, p.N)
		}
	}
	var got []int
	for _, p := range fill(t, &Window{Count: MaxCount, Wrong: true}).packets {
		got = append(got, p.N)
	}
	require.Equal(t, want, got)
	require.Greater(t, len(got), 10)
}

// TestRoom: how many packets there is room for.
func TestRoom(t *testing.T) {
	for count, want := range map[int]int{-1: DefaultCount, 0: DefaultCount, 7: 7, MaxCount + 1: MaxCount} {
		require.Equal(t, want, (&Window{Count: count}).room(), fmt.Sprint(count))
	}
}
