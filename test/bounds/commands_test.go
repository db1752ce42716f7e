package bounds

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

const transportPath = "github.com/windowsmachine/operator/pkg/transport"

// script finds texts that hand a script to a shell.
var script = regexp.MustCompile(`(?i)\b(powershell|pwsh|cmd|wscript|cscript)\.exe\b|-EncodedCommand\b|\bcmd /[ck]\b|-Command\b`)

// built finds the parts of a file that make a remote command, or a shell's script, of text. pkg/transport/ssh refuses every word that a shell
// could read in its own way when the command is run; this finds it before.
func built(s source) []string {
	var out []string
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			for _, e := range words(s, n) {
				if bad := assembled(e); bad != nil {
					out = append(out, s.where(bad)+": a word of a remote command is built")
				}
			}
		case *ast.CallExpr:
			for _, e := range arguments(n) {
				if bad := assembled(e); bad != nil {
					out = append(out, s.where(bad)+": a word of a remote command is built")
				}
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING && script.MatchString(n.Value) {
				out = append(out, s.where(n)+": a shell's command line")
			}
		}
		return true
	})
	return out
}

// words are the expressions of a transport.Command that become its line, and those of pkg/host's call.
func words(s source, lit *ast.CompositeLit) []ast.Expr {
	fields := map[string]bool{}
	switch typ := lit.Type.(type) {
	case *ast.SelectorExpr:
		if x, ok := typ.X.(*ast.Ident); ok && s.imports[x.Name] == transportPath && typ.Sel.Name == "Command" {
			fields = map[string]bool{"Path": true, "Args": true}
		}
	case *ast.Ident:
		if typ.Name == "call" && strings.HasPrefix(s.name, "pkg/host/") {
			fields = map[string]bool{"args": true}
		}
	}
	if len(fields) == 0 {
		return nil
	}
	var out []ast.Expr
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			// Without names of fields, all are looked at.
			out = append(out, e)
			continue
		}
		if key, ok := kv.Key.(*ast.Ident); ok && fields[key.Name] {
			out = append(out, kv.Value)
		}
	}
	return out
}

// arguments are the words that are given to Session.reports.
func arguments(call *ast.CallExpr) []ast.Expr {
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "reports" && len(call.Args) > 3 {
		return call.Args[3:]
	}
	return nil
}

// assembled returns the part of an expression that makes text: anything but literals, names and the agent's own path.
func assembled(e ast.Expr) ast.Expr {
	var bad ast.Expr
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			bad = n
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); !ok || sel.Sel.Name != "agentPath" || len(n.Args) > 0 {
				bad = n
			}
		}
		return bad == nil
	})
	return bad
}

func TestRemoteCommandsArePlainWords(t *testing.T) {
	commands := 0
	for _, s := range product(t) {
		if strings.HasPrefix(s.name, "pkg/powershell/") {
			continue
		}
		for _, problem := range built(s) {
			t.Errorf("%s: give a program and plain words; scripts are built in pkg/powershell only", problem)
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.CompositeLit); ok && len(words(s, lit)) > 0 {
				commands++
			}
			return true
		})
	}
	if commands < 3 {
		t.Errorf("found %d commands only: what this test looks for has another name now", commands)
	}
}

func TestBuilt(t *testing.T) {
	for body, want := range map[string]int{
		"_ = transport.Command{Path: s.agentPath(), Args: []string{`receive`}}":         0,
		"_ = transport.Command{Path: exe, Args: k.args}":                                0,
		"_ = transport.Command{Args: []string{fmt.Sprintf(`--name=%s`, who)}}":          1,
		"_ = transport.Command{Path: `C:\\a.exe `+who}":                                 1,
		"_ = transport.Command{Path: s.agentPath(who)}":                                 1,
		"_ = transport.Command{Args: strings.Fields(line)}":                             1,
		"_ = transport.Command{exe, append(args, who), nil, nil, nil}":                  1,
		"_ = &transport.Command{Args: []string{strings.Join(a, b)}, Stdin: f(x + y)}":   1,
		"_ = other.Command{Args: []string{fmt.Sprintf(`x`)}}":                           0,
		"_ = call{args: []string{`facts`, x + y}}":                                      1,
		"s.reports(ctx, c, f(x), `apply`, `--json`)":                                    0,
		"s.reports(ctx, c, nil, `apply`, `--host=`+who)":                                1,
		"_ = `C:\\Windows\\System32\\WindowsPowerShell\\v1.0\\powershell.exe -c `+line": 1,
		"_ = `the powershell module Containers`":                                        0,
		"_ = `x -EncodedCommand `":                                                      1,
	} {
		s := parse(t, "pkg/host/x.go", `package x; import ("fmt"; "strings"; "`+transportPath+`"); func f() { `+body+` }`)
		if got := built(s); len(got) != want {
			t.Errorf("%s: found %v, want %d", body, got, want)
		}
	}
}
