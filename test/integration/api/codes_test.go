package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func rawObject() *unstructured.Unstructured { return &unstructured.Unstructured{} }

// vocabulary is where steps, reasons, events and the agent's codes are written down, each in one file.
func vocabulary() []string {
	return []string{"pkg/plan/steps.go", "pkg/apis/v1alpha1/reasons.go", "pkg/agent/codes.go"}
}

// A word of the vocabulary that is written out elsewhere is one that a rename forgets, and a reason that is written out is one that the
// vocabulary lacks.
func TestVocabularyIsWrittenDownOnce(t *testing.T) {
	words := map[string]string{}
	for _, f := range vocabulary() {
		n := 0
		inspect(t, f, func(x ast.Node) {
			if spec, ok := x.(*ast.ValueSpec); ok {
				for _, v := range spec.Values {
					if s, ok := text(v); ok {
						words[s], n = f, n+1
					}
				}
			}
		})
		if n < 10 {
			t.Fatalf("%s has %d words only", f, n)
		}
	}
	// A report's phases are a vocabulary of their own. A session stands in for an agent that could not speak, and knows nothing of the engine.
	exempt := append(vocabulary(), "pkg/plan/report.go", "pkg/host/agent.go")
	for _, f := range product(t) {
		if slices.Contains(exempt, f) {
			continue
		}
		inspect(t, f, func(x ast.Node) {
			for _, s := range suspects(x, words) {
				t.Errorf("%s: %q is written out; it belongs in one of %v", f, s, vocabulary())
			}
		})
	}
}

// compound are words that mean nothing else: two capitals, or a hyphen.
var compound = regexp.MustCompile(`^[A-Z][a-z]+[A-Z]|^[a-z]+-[a-z-]+$`)

// suspects are texts in x that are words of the vocabulary, or stand where one must.
func suspects(x ast.Node, words map[string]string) []string {
	switch n := x.(type) {
	case *ast.BasicLit:
		if s, ok := text(n); ok && words[s] != "" && compound.MatchString(s) {
			return []string{s}
		}
	case *ast.KeyValueExpr:
		key, ok := n.Key.(*ast.Ident)
		if s, lit := text(n.Value); ok && lit && s != "" && slices.Contains([]string{"Reason", "reason", "Code"}, key.Name) {
			return []string{s}
		}
	case *ast.CallExpr:
		return literalReason(n)
	}
	return nil
}

// literalReason finds a reason that is written out in Eventf(regarding, related, type, reason, …), yes, no and wait.
func literalReason(c *ast.CallExpr) []string {
	at := -1
	switch f := c.Fun.(type) {
	case *ast.SelectorExpr:
		if f.Sel.Name == "Eventf" {
			at = 3
		}
	case *ast.Ident:
		if slices.Contains([]string{"yes", "no", "wait"}, f.Name) {
			at = 0
		}
	}
	if at < 0 || at >= len(c.Args) {
		return nil
	}
	if s, ok := text(c.Args[at]); ok {
		return []string{s}
	}
	return nil
}

func TestSuspectsAreFound(t *testing.T) {
	words := map[string]string{"StepFailed": "x", "join-network": "x", "Ready": "x"}
	for src, want := range map[string]bool{
		`"StepFailed"`:                          true,
		`"join-network"`:                        true,
		`"Ready"`:                               false,
		`"another text"`:                        false,
		`C{Reason: "New"}`:                      true,
		`C{Reason: v1alpha1.ReasonNew}`:         false,
		`C{Code: "New"}`:                        true,
		`r.Eventf(p, nil, kind, "New", "A")`:    true,
		`r.Eventf(p, nil, kind, reason, "New")`: false,
		`no("New", "message")`:                  true,
		`no(v1alpha1.ReasonNew, "message")`:     false,
	} {
		e, err := parser.ParseExpr(src)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		ast.Inspect(e, func(x ast.Node) bool {
			found = found || len(suspects(x, words)) > 0
			return true
		})
		if found != want {
			t.Errorf("%s: found %t, want %t", src, found, want)
		}
	}
}

func text(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

func inspect(t *testing.T, file string, f func(ast.Node)) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), root+file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(tree, func(x ast.Node) bool {
		if x != nil {
			f(x)
		}
		return true
	})
}

// product are the files of the product, without tests and what is generated.
func product(t *testing.T) []string {
	t.Helper()
	out := []string{"main.go"}
	for _, dir := range []string{"controllers", "pkg", "cmd"} {
		err := filepath.WalkDir(root+dir, func(path string, d fs.DirEntry, err error) error {
			name := d.Name()
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_") {
				return err
			}
			out = append(out, strings.TrimPrefix(path, root))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(out) < 100 {
		t.Fatalf("%d files only", len(out))
	}
	return out
}
