package bounds

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// readers take in as much as they are given: the argument with that number must be limited where it stands. What decompresses gives out more
// than it takes in, so no argument limits it.
func readers() map[string]int {
	return map[string]int{
		"io.ReadAll": 0, "io.Copy": 1, "io.CopyBuffer": 1, "os.ReadFile": 0, "bufio.NewReader": 0, "bufio.NewReaderSize": 0, "bufio.NewScanner": 0,
		"encoding/json.NewDecoder": 0, "encoding/xml.NewDecoder": 0, "encoding/gob.NewDecoder": 0, "encoding/base64.NewDecoder": 1, "encoding/hex.NewDecoder": 0,
		"compress/gzip.NewReader": never, "compress/zlib.NewReader": never, "compress/flate.NewReader": never, "archive/tar.NewReader": 0, "archive/zip.NewReader": never,
		"github.com/klauspost/compress/zstd.NewReader": never, "github.com/pkg/sftp.NewClientPipe": 0, "net/http.Get": 0, "net/http.Post": 0,
	}
}

// known are the readers whose limit stands elsewhere, by file and call, with the place.
func known() map[string]string {
	return map[string]string{
		"pkg/agent/disk/disk.go io.CopyBuffer":          "into a hash and a file through a buffer of fixed size; a blob's size is checked by its frame",
		"pkg/agent/receive.go bufio.NewReader":          "a buffer of fixed size; lines by payload.ReadLine, frames by payload.ReadFrames",
		"pkg/console/serve.go bufio.NewReaderSize":      "a buffer of fixed size; a request that does not fit is refused",
		"pkg/console/serve.go io.Copy":                  "thrown away",
		"pkg/console/consoletest/serve.go io.Copy":      "a pipe between a test and its machine",
		"pkg/payload/copy.go io.Copy":                   "from file to file, whose size the manifest says",
		"pkg/payload/frames.go zstd.NewReader":          "maxWindow bounds its memory, blobReader the bytes that it yields",
		"pkg/payload/store.go zstd.NewReader":           "maxWindow bounds its memory, its reader takes a blob's size and one byte",
		"pkg/transport/ssh/sftp.go io.Copy":             "thrown away",
		"pkg/transport/ssh/sftp.go sftp.NewClientPipe":  "replies lets maxReplies pass",
		"pkg/transport/ssh/run.go io.CopyBuffer":        "standard input is ours; output goes to the caller's writer, which refuses more than it takes",
		"pkg/host/load.go io.Copy":                      "the agent's file of the operator's own image, into a hash",
		"pkg/ignition/input.go gzip.NewReader":          "what comes out is read through io.LimitReader",
		"controllers/profile/controller.go os.ReadFile": "the CA file of the operator's own pod",
	}
}

// never is the number of no argument.
const never = -1

// limited reports whether a reader's argument ends by itself: a limited reader, or bytes that are there already.
func limited(s source, arg ast.Expr) bool {
	call, ok := arg.(*ast.CallExpr)
	return ok && slices.Contains([]string{"io.LimitReader", "bytes.NewReader", "strings.NewReader"}, function(s, call))
}

// function is the import path and name of a package's function, "" for other calls.
func function(s source, call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok || s.imports[x.Name] == "" {
		return ""
	}
	return s.imports[x.Name] + "." + sel.Sel.Name
}

// unbounded finds the readers of a file without a limit in the call itself, as "<package>.<function>" by place.
func unbounded(s source) map[string]string {
	out := map[string]string{}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := function(s, call)
		arg, ok := readers()[name]
		if ok && (arg == never || len(call.Args) <= arg || !limited(s, call.Args[arg])) {
			out[s.where(call)] = name[strings.LastIndex(name, "/")+1:]
		}
		return true
	})
	return out
}

func TestEveryReaderHasALimit(t *testing.T) {
	used := map[string]bool{}
	for _, s := range product(t) {
		for where, call := range unbounded(s) {
			key := s.name + " " + call
			used[key] = true
			if known()[key] == "" {
				t.Errorf("%s: %s reads without a limit: give it io.LimitReader, or say in known where the limit is", where, call)
			}
		}
	}
	for key := range known() {
		if !used[key] {
			t.Errorf("%s is no more: take it off the list", key)
		}
	}
}

func TestUnbounded(t *testing.T) {
	for body, want := range map[string]string{
		"io.ReadAll(r)":                        "io.ReadAll",
		"io.ReadAll(io.LimitReader(r, 9))":     "",
		"json.NewDecoder(bytes.NewReader(b))":  "",
		"json.NewDecoder(r)":                   "json.NewDecoder",
		"all.ReadFile(name)":                   "os.ReadFile",
		"io.Copy(io.LimitReader(nil, 1), r)":   "io.Copy",
		"io.Copy(w, io.LimitReader(r, 1))":     "",
		"bufio.NewScanner(other.Limit(r, 10))": "bufio.NewScanner",
		"r.ReadAll(r)":                         "",
		"gzip.NewReader(bytes.NewReader(b))":   "gzip.NewReader",
	} {
		s := parse(t, "x.go", `package x; import ("io"; "bytes"; "bufio"; "compress/gzip"; all "os"; "encoding/json"); func f() { `+body+` }`)
		got := ""
		for _, call := range unbounded(s) {
			got += call
		}
		if got != want {
			t.Errorf("%s: found %q, want %q", body, got, want)
		}
	}
}
