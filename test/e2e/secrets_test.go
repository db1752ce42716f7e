package e2e

import (
	"bytes"
	"encoding/base64"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

// tokenLine is the token in a kubeconfig.
var tokenLine = regexp.MustCompile(`token: (\S+)`)

// TestNoSecretLeaks: neither the private key nor the ticket is in anything that people read, nor in what stays on the machine. The operator
// runs with --debug here.
func TestNoSecretLeaks(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.calm)
	const comment = "canary-of-the-private-key"
	private, public := newKey(t, comment)
	secret := keySecret(unique("canary"), private)
	r.create(secret)
	m := r.machine("secret", authorize(public))
	written := interceptBootstrap(m)
	r.join(hostOf(m, withProfile(profileBridge), withSecret(secret.Name)))
	r.untilReady(m.name)

	found := tokenLine.FindSubmatch(written())
	if found == nil || len(found[1]) < 100 {
		t.Fatalf("the machine got no token: %d bytes were written", len(written()))
	}
	token := found[1]
	canaries := map[string][]byte{
		"the ticket's token": token,
		// What remains of a token when a log cuts it.
		"the token's signature": token[bytes.LastIndexByte(token, '.')+1:],
		"the token in base64":   []byte(base64.StdEncoding.EncodeToString(token))[:80],
		"the key's comment":     []byte(comment),
	}
	for i, line := range strings.Split(strings.TrimSpace(string(private)), "\n") {
		if !strings.HasPrefix(line, "-----") && i > 1 { // the first line is the format's name, and the same in every key
			canaries["the key, line "+line[:4]] = []byte(line)
		}
	}
	log, err := os.ReadFile(r.bed.OperatorLog())
	if err != nil {
		t.Fatal(err)
	}
	places := map[string][]byte{
		"the operator's log":   log,
		"the events":           []byte(r.kubectl("get", "events", "-A", "-o", "json")),
		"WindowsHosts":         []byte(r.kubectl("get", "winhost", "-A", "-o", "json", "--show-managed-fields")),
		"WindowsNodeProfiles":  []byte(r.kubectl("get", "winprofile", "-o", "json", "--show-managed-fields")),
		"Nodes":                []byte(r.kubectl("get", "nodes", "-o", "json", "--show-managed-fields")),
		"certificate requests": []byte(r.kubectl("get", "csr", "-o", "json")),
		"command lines":        []byte(strings.Join(m.Stats().Commands, "\n")),
	}
	for path, f := range m.Machine().Dump().Files {
		if !f.Dir && f.Size < 1<<20 {
			if places[path], err = m.Machine().ReadFile(path); err != nil {
				t.Error(err)
			}
		}
	}
	for _, path := range []string{planFile, journalFile, stateFile} {
		if len(places[path]) == 0 {
			t.Errorf("%s was not looked at", path)
		}
	}
	for place, text := range places {
		for what, canary := range canaries {
			if bytes.Contains(text, canary) {
				t.Errorf("%s is in %s", what, place)
			}
		}
	}
	t.Logf("looked for %d secrets in %d places", len(canaries), len(places))
}

// interceptBootstrap keeps what is written to the bootstrap kubeconfig, under its own name or a temporary one.
func interceptBootstrap(m *machine) (written func() []byte) {
	var mu sync.Mutex
	var kept []byte
	m.Machine().Intercept(func(op fake.Op) fake.Verdict {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind == fake.OpWrite && bytes.Contains(op.Data, []byte("kind: Config")) && tokenLine.Match(op.Data) {
			kept = bytes.Clone(op.Data)
		}
		return fake.Verdict{}
	})
	return func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return bytes.Clone(kept)
	}
}
