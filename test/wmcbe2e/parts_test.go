package wmcbe2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	machinev1 "github.com/openshift/api/machine/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

func TestOptionsNameAllThatIsMissing(t *testing.T) {
	err := (&Options{}).check()
	for _, want := range []string{"-ssh-key", "-wmcb", "-payload", "-artifacts", "-ami, or -skipVMSetup"} {
		if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in %v", want, err)
		}
	}
	if err := (&Options{SSHKey: "k", WMCB: "w", Payload: "p", Artifacts: "a", SkipVMSetup: true}).check(); err != nil {
		t.Error(err)
	}
}

func machine(name, phase, ip string) machinev1.Machine {
	m := machinev1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if phase != "" {
		m.Status.Phase = ptr.To(phase)
	}
	if ip != "" {
		m.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeInternalDNS, Address: "IP-10-0-0-1.ec2.internal"},
			{Type: corev1.NodeHostName, Address: "ip-10-0-0-1.ec2.internal"},
			{Type: corev1.NodeInternalIP, Address: ip},
		}
	}
	return m
}

func TestPick(t *testing.T) {
	gone := machine("a", "Provisioned", "10.0.0.9")
	gone.DeletionTimestamp = &metav1.Time{}
	*gone.DeletionTimestamp = metav1.Now()
	for name, tt := range map[string]struct {
		list []machinev1.Machine
		want string
	}{
		"provisioned before running": {[]machinev1.Machine{machine("a", "Running", "10.0.0.1"), machine("c", "Provisioned", "10.0.0.3"), machine("b", "Provisioned", "10.0.0.2")}, "b"},
		"running if there is none":   {[]machinev1.Machine{machine("a", "Provisioning", ""), machine("b", "Running", "10.0.0.1")}, "b"},
		"being deleted":              {[]machinev1.Machine{gone}, ""},
		"no address":                 {[]machinev1.Machine{machine("a", "Provisioned", "")}, ""},
		"no phase":                   {[]machinev1.Machine{machine("a", "", "10.0.0.1")}, ""},
		"none":                       {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pick(tt.list)
			if got.Name != tt.want || errors.Is(err, errNoMachine) != (tt.want == "") {
				t.Errorf("%q, %v", got.Name, err)
			}
		})
	}
	if d := cmp.Diff([]string{"ip-10-0-0-1", "ip-10-0-0-1.ec2.internal"}, names(machine("a", "Running", "10.0.0.1"))); d != "" {
		t.Error(d)
	}
}

func TestWindowsSet(t *testing.T) {
	worker := machinev1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: "c1-worker-a", Labels: map[string]string{"machine.openshift.io/cluster-api-cluster": "c1"}},
		Spec: machinev1.MachineSetSpec{Replicas: ptr.To(int32(3)), Template: machinev1.MachineTemplateSpec{
			ObjectMeta: machinev1.ObjectMeta{Labels: map[string]string{"machine.openshift.io/cluster-api-cluster": "c1"}},
			Spec: machinev1.MachineSpec{ProviderSpec: machinev1.ProviderSpec{Value: &runtime.RawExtension{
				Raw: []byte(`{"ami":{"id":"ami-linux"},"userDataSecret":{"name":"worker-user-data"},"tags":[{"name":"kubernetes.io/cluster/c1","value":"owned"}]}`),
			}}},
		}},
	}
	untouched := worker.DeepCopy()
	set, err := windowsSet(worker, "ami-windows")
	if err != nil {
		t.Fatal(err)
	}
	var provider map[string]any
	if err := json.Unmarshal(set.Spec.Template.Spec.ProviderSpec.Value.Raw, &provider); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"ami": map[string]any{"id": "ami-windows"}, "userDataSecret": map[string]any{"name": "windows-user-data"},
		// The instance needs the cluster's tags.
		"tags": []any{map[string]any{"name": "kubernetes.io/cluster/c1", "value": "owned"}},
	}
	if d := cmp.Diff(want, provider); d != "" {
		t.Error(d)
	}
	labels := set.Spec.Template.Labels
	if *set.Spec.Replicas != 1 || labels[osLabel] != "Windows" || labels["machine.openshift.io/cluster-api-cluster"] != "c1" {
		t.Errorf("%+v", set.Spec)
	}
	for k, v := range set.Spec.Selector.MatchLabels {
		if labels[k] != v {
			t.Errorf("the selector %s=%s does not select the template's labels %v", k, v, labels)
		}
	}
	if d := cmp.Diff(untouched, &worker); d != "" {
		t.Errorf("the worker's MachineSet was changed: %s", d)
	}
	worker.Spec.Template.Spec.ProviderSpec.Value = nil
	if _, err := windowsSet(worker, "ami"); !errors.Is(err, errNoWorker) {
		t.Errorf("without a provider: %v", err)
	}
}

// request is a certificate request with defaults: the first of node n1.
func request(t *testing.T, change func(*x509.CertificateRequest, *certificatesv1.CertificateSigningRequest)) certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}}
	r := certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, Username: "system:serviceaccount:wmcb-e2e:bootstrap",
	}}
	if change != nil {
		change(template, &r)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	if r.Spec.Request == nil {
		r.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	return r
}

func TestOurs(t *testing.T) {
	type (
		x = *x509.CertificateRequest
		c = *certificatesv1.CertificateSigningRequest
	)
	for name, tt := range map[string]struct {
		change func(x, c)
		want   bool
	}{
		"first":           {nil, true},
		"serving":         {func(_ x, r c) { r.Spec.SignerName, r.Spec.Username = "kubernetes.io/kubelet-serving", "system:node:n1" }, true},
		"another node":    {func(q x, _ c) { q.Subject.CommonName = "system:node:n2" }, false},
		"part of a name":  {func(q x, _ c) { q.Subject.CommonName = "system:node:n1x" }, false},
		"no node":         {func(q x, _ c) { q.Subject.CommonName = "n1" }, false},
		"another group":   {func(q x, _ c) { q.Subject.Organization = []string{"system:masters"} }, false},
		"one group more":  {func(q x, _ c) { q.Subject.Organization = []string{"system:nodes", "system:masters"} }, false},
		"another account": {func(_ x, r c) { r.Spec.Username = "system:serviceaccount:default:bootstrap" }, false},
		"serving for another": {func(_ x, r c) {
			r.Spec.SignerName, r.Spec.Username = "kubernetes.io/kubelet-serving", "system:node:n2"
		}, false},
		"another signer": {func(_ x, r c) { r.Spec.SignerName = "kubernetes.io/kube-apiserver-client" }, false},
		"decided": {func(_ x, r c) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
		}, false},
		"no PEM":     {func(_ x, r c) { r.Spec.Request = []byte("x") }, false},
		"no request": {func(_ x, r c) { r.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "X", Bytes: []byte("x")}) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ours(request(t, tt.change), []string{"n1"}); got != tt.want {
				t.Errorf("ours = %v", got)
			}
		})
	}
}

func TestNodeIsRight(t *testing.T) {
	good := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelOSStable: "windows"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "os", Value: "Windows", Effect: corev1.TaintEffectNoSchedule}}},
	}
	if err := nodeIsRight(good); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*corev1.Node){
		"label":          func(n *corev1.Node) { n.Labels = nil },
		"no taint":       func(n *corev1.Node) { n.Spec.Taints = nil },
		"another effect": func(n *corev1.Node) { n.Spec.Taints[0].Effect = corev1.TaintEffectPreferNoSchedule },
		"another value":  func(n *corev1.Node) { n.Spec.Taints[0].Value = "windows" },
	} {
		n := good.DeepCopy()
		change(n)
		if err := nodeIsRight(*n); !errors.Is(err, errNode) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWithFiles(t *testing.T) {
	doc := `{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/a"},{"path":"/b","contents":{"source":"data:,old"}}]},"systemd":{}}`
	got, err := withFiles([]byte(doc), map[string][]byte{"/b": []byte("new")})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/a"},` +
		`{"contents":{"source":"data:;base64,bmV3"},"mode":384,"overwrite":true,"path":"/b"}]},"systemd":{}}`
	if string(got) != want {
		t.Errorf("%s", got)
	}
	for _, bad := range []string{"", "[]", "{}", `{"storage":[]}`} {
		if _, err := withFiles([]byte(bad), nil); !errors.Is(err, errIgnition) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSpec2(t *testing.T) {
	got, err := spec2([]byte(`{"ignition":{"version":"3.4.0","config":{}},"storage":{"files":[{"path":"/a"}],"links":[{"path":"/l"}]},"systemd":{"units":[{"name":"kubelet.service"}]}}`))
	want := `{"ignition":{"version":"2.4.0"},"storage":{"files":[{"filesystem":"root","path":"/a"}],"links":[{"filesystem":"root","path":"/l"}]},"systemd":{"units":[{"name":"kubelet.service"}]}}`
	if string(got) != want || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{"", "[]", "{}", `{"storage":[]}`} {
		if _, err := spec2([]byte(bad)); !errors.Is(err, errIgnition) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestOutputLast(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"one":                    "one",
		"one\ntwo\n":             "two",
		"one\r\ntwo\r\n":         "two",
		saidInitialized + "\n\n": saidInitialized,
	} {
		if got := (output{stdout: text}).last(); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestLimited(t *testing.T) {
	l := &limited{}
	for range 3 {
		if n, err := l.Write(bytes.Repeat([]byte("x"), maxOutput/2)); n != maxOutput/2 || err != nil {
			t.Fatal(n, err)
		}
	}
	if l.b.Len() != maxOutput {
		t.Errorf("%d bytes are kept", l.b.Len())
	}
}

func TestUntil(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		f    func(n int) (bool, string, error)
		err  error
		says string
	}{
		"done in the end": {func(n int) (bool, string, error) { return n == 3, "waits", nil }, nil, ""},
		"fails":           {func(n int) (bool, string, error) { return false, "waits", broken }, broken, "broken"},
		"never":           {func(int) (bool, string, error) { return false, "waits for a Node", nil }, context.DeadlineExceeded, "last: waits for a Node"},
		"cut short, at last": {func(n int) (bool, string, error) {
			if n >= 11 {
				return false, "", broken
			}
			return false, "waits for a Node", nil
		}, broken, "last: waits for a Node"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				err := until(t.Context(), 10*pollEvery+pollEvery/2, func(context.Context) (bool, string, error) {
					n++
					return tt.f(n)
				})
				if !errors.Is(err, tt.err) || tt.err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("error %v after %d calls", err, n)
				}
			})
		})
	}
}
