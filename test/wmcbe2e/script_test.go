package wmcbe2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kubectlStub stands for kubectl: it writes down what it is called with and what it reads, and answers as the cluster of a test would.
const kubectlStub = `#!/usr/bin/env bash
echo "kubectl $*" >>"$CALLS"
case "$*" in
"apply -f -") cat >>"$CALLS" ;;
"create secret"*) echo "the secret" ;;
"get job wmcb-e2e"*) echo "$CONDITION " ;;
"get infrastructure"*) echo us-east-2 ;;
"get job,pod"*) echo "kind: List" ;;
logs*) cat "$LOG" ;;
esac
`

// awsStub stands for the AWS command line.
const awsStub = `#!/usr/bin/env bash
echo "aws $*" >>"$CALLS"
echo ami-0123
`

// rig is a folder with stubs and everything that the script wants.
type rig struct {
	t     *testing.T
	dir   string
	calls string
	env   map[string]string
}

func newRig(t *testing.T, condition string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	r.calls = filepath.Join(r.dir, "calls")
	keep, err := newArtifacts(filepath.Join(r.dir, "kept"))
	if err != nil {
		t.Fatal(err)
	}
	if err := keep.write("journal.jsonl", []byte(strings.Repeat("{}\n", 200))); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	log.WriteString("=== RUN   TestBootstrapper\n")
	if err := keep.print(&log); err != nil {
		t.Fatal(err)
	}
	log.WriteString("PASS\n")
	for name, text := range map[string]string{
		"bin/kubectl": kubectlStub, "bin/aws": awsStub, "key": "the key", "credentials": "of aws", "log": log.String(), "calls": "",
	} {
		path := filepath.Join(r.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	r.env = map[string]string{
		"PATH": filepath.Join(r.dir, "bin") + ":" + os.Getenv("PATH"), "HOME": r.dir, "CALLS": r.calls, "CONDITION": condition,
		"LOG": filepath.Join(r.dir, "log"), "POLL_SECONDS": "0",
		"ARTIFACT_DIR": filepath.Join(r.dir, "artifacts"), "KUBE_SSH_KEY_PATH": filepath.Join(r.dir, "key"), "WMCB_IMAGE": "registry.example.com/wmcb:test",
		"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(r.dir, "credentials"),
	}
	return r
}

// run runs the script and returns its output, its error and the stubs' calls.
func (r *rig) run(args ...string) (out, calls string, err error) {
	r.t.Helper()
	cmd := exec.CommandContext(context.Background(), "bash", append([]string{filepath.Join(root, "hack", "run-wmcb-ci-e2e-test.sh")}, args...)...)
	for k, v := range r.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	b, err := cmd.CombinedOutput()
	text, rerr := os.ReadFile(r.calls)
	if rerr != nil {
		r.t.Fatal(rerr)
	}
	return string(b), string(text), err
}

func TestScriptSkipsVMSetup(t *testing.T) {
	r := newRig(t, "Complete")
	delete(r.env, "AWS_SHARED_CREDENTIALS_FILE")
	out, calls, err := r.run("-skipVMSetup", "-hns-network=OVNKubernetesHybridOverlayNetwork")
	if err != nil || !strings.Contains(out, "has passed") {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{
		"kubectl apply -f hack/wmcb-ci-e2e/access.yaml\n", "image: registry.example.com/wmcb:test\n",
		"        - -artifacts-to-log\n        - -skipVMSetup\n        - -hns-network=OVNKubernetesHybridOverlayNetwork\n", "the secret\n",
		"kubectl delete --ignore-not-found --wait=false -f hack/wmcb-ci-e2e/access.yaml\n",
	} {
		if !strings.Contains(calls, want) {
			t.Errorf("%q is missing in\n%s", want, calls)
		}
	}
	if strings.Contains(calls, "WMCB_IMAGE") || strings.Contains(calls, "the key") || strings.Contains(calls, "aws ") || strings.Contains(calls, "-ami") {
		t.Errorf("a placeholder, the key, or a call of aws:\n%s", calls)
	}
	for name, want := range map[string]string{"journal.jsonl": strings.Repeat("{}\n", 200), "wmcb-e2e.log": "=== RUN   TestBootstrapper\nPASS\n", "job.yaml": "kind: List\n"} {
		if got, err := os.ReadFile(filepath.Join(r.env["ARTIFACT_DIR"], name)); err != nil || string(got) != want {
			t.Errorf("%s: %.100q, %v", name, got, err)
		}
	}
}

func TestScriptFindsTheImage(t *testing.T) {
	r := newRig(t, "Complete")
	if out, calls, err := r.run(); err != nil || !strings.Contains(calls, "--region us-east-2") || !strings.Contains(calls, "        - -ami=ami-0123\n") {
		t.Errorf("%v: %s\n%s", err, out, calls)
	}
	r = newRig(t, "Complete")
	r.env["WINDOWS_AMI"] = "ami-mine"
	if out, calls, err := r.run(); err != nil || strings.Contains(calls, "aws ") || !strings.Contains(calls, "        - -ami=ami-mine\n") {
		t.Errorf("%v: %s\n%s", err, out, calls)
	}
}

func TestScriptReportsAFailedJob(t *testing.T) {
	r := newRig(t, "Failed")
	out, calls, err := r.run("-skipVMSetup")
	if err == nil || !strings.Contains(out, "the Job is Failed") || !strings.Contains(calls, "kubectl delete --ignore-not-found --wait=false") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(r.env["ARTIFACT_DIR"], "journal.jsonl")); err != nil {
		t.Errorf("the artifacts of a failed run: %v", err)
	}
}

// TestScriptRefuses: everything that is missing is named at once, and nothing is called.
func TestScriptRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(map[string]string)
		args   []string
		says   []string
	}{
		"nothing is set": {
			func(env map[string]string) {
				for _, k := range []string{"ARTIFACT_DIR", "KUBE_SSH_KEY_PATH", "WMCB_IMAGE", "AWS_SHARED_CREDENTIALS_FILE"} {
					delete(env, k)
				}
			}, nil, []string{"ARTIFACT_DIR is not set", "KUBE_SSH_KEY_PATH is not set", "WMCB_IMAGE is not set", "AWS_SHARED_CREDENTIALS_FILE does not name"},
		},
		"files that are not there": {
			func(env map[string]string) {
				env["KUBE_SSH_KEY_PATH"], env["AWS_SHARED_CREDENTIALS_FILE"] = "/none", "/none"
			}, nil,
			[]string{"/none cannot be read", "or use -skipVMSetup"},
		},
		"an argument that is YAML": {nil, []string{"-skipVMSetup", "-x\n        - evil"}, []string{"not a plain flag"}},
		"an argument that is none": {nil, []string{"skipVMSetup"}, []string{"not a plain flag"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "Complete")
			if tt.change != nil {
				tt.change(r.env)
			}
			out, calls, err := r.run(tt.args...)
			if err == nil || calls != "" {
				t.Errorf("%v, calls %q", err, calls)
			}
			for _, want := range tt.says {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in %s", want, out)
				}
			}
		})
	}
}
