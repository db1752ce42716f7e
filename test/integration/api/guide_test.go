package api

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

// dryKubectl stands in for kubectl in the commands of a guide: what reads runs as it is, what writes is asked of the API server as a dry run with
// strict fields, and what needs a machine, running pods or a person is left out. A verb that the guide has not used before is an error.
const dryKubectl = `#!/usr/bin/env bash
set -euo pipefail
case "$1 $*" in
*" -w"*) exit 0 ;;
get*) exec "$REAL_KUBECTL" "$@" ;;
apply*) shift; args=(--server-side --force-conflicts --validate=strict --dry-run=server)
  for a in "$@"; do case "$a" in --server-side | --force-conflicts) ;; *) args+=("$a") ;; esac; done
  exec "$REAL_KUBECTL" apply "${args[@]}" ;;
create* | patch* | set*) exec "$REAL_KUBECTL" "$@" --dry-run=server ;;
rollout* | wait* | run* | drain* | edit* | delete*) exit 0 ;;
*) echo "kubectl $1 is new in the guide" >&2; exit 1 ;;
esac
`

// shellBlocks are the blocks of a document that are for a shell.
func shellBlocks(t *testing.T, document string) []string {
	t.Helper()
	b, err := os.ReadFile(root + document)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, rest := range strings.Split("\n"+string(b), "\n```sh\n")[1:] {
		block, _, ok := strings.Cut(rest, "\n```")
		if !ok {
			t.Fatalf("a block of %s has no end", document)
		}
		out = append(out, block)
	}
	return out
}

// TestFailure45CommandsOfTheGuide, sig-windows-tools#293: the documents do not work as written. Each command of docs/vanilla.md is one that the API
// server of a cluster with config/default takes: no field, object or flag in it is made up.
func TestFailure45CommandsOfTheGuide(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"bin/kubectl": dryKubectl, "windows-key": "a key"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(abs("config"), filepath.Join(dir, "config")); err != nil {
		t.Fatal(err)
	}
	guideObjects(t)
	ran := 0
	for _, block := range shellBlocks(t, "docs/vanilla.md") {
		if !strings.HasPrefix(block, "kubectl") {
			continue
		}
		ran++
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", block)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "KUBECONFIG="+cp.KubeconfigPath(),
			"REAL_KUBECTL="+cp.KubectlPath(), "HOME="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s\nof\n%s", err, out, block)
		}
	}
	if ran < 10 {
		t.Errorf("%d blocks were run", ran)
	}
}

// guideObjects are those that a reader of the guide has: the operator's profile, and flannel's configuration.
func guideObjects(t *testing.T) {
	t.Helper()
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-flannel"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-flannel", Name: "kube-flannel-cfg"}, Data: map[string]string{"net-conf.json": "{}"}},
		&v1alpha1.WindowsNodeProfile{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
	} {
		if err := client.IgnoreAlreadyExists(admin.Create(t.Context(), o)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		kubectlAfter(t, "delete", "--ignore-not-found", "--wait=false", "winprofile/default", "namespace/kube-flannel")
	})
}

// kubectlAfter runs kubectl when the test's own context has ended.
func kubectlAfter(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(cp.KubectlPath(), append([]string{"--kubeconfig", cp.KubeconfigPath()}, args...)...).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
