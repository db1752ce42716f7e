package controlplane

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/windowsmachine/operator/hack/gobuild"
)

func testServingCertificate(t *testing.T, cp *ControlPlane) {
	const node = "serving"
	requests := nodeClient(t, cp, node).CertificatesV1().CertificateSigningRequests()
	_, err := requests.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeletServingSignerName,
			Request:    servingRequest(t, node),
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	approveCSR(t, clientFor(t, cp.RESTConfig()), node)
	var signed []byte
	eventually(t, "the certificate is signed", func(ctx context.Context) (bool, error) {
		csr, err := requests.Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		signed = csr.Status.Certificate
		return len(signed) > 0, nil
	})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cp.CA())
	block, _ := pem.Decode(signed)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, DNSName: node}); err != nil {
		t.Errorf("the certificate is not the CA's: %v", err)
	}
}

func approveCSR(t *testing.T, c *kubernetes.Clientset, name string) {
	t.Helper()
	requests := c.CertificatesV1().CertificateSigningRequests()
	csr, err := requests.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(csr.Status.Conditions) != 0 {
		t.Fatalf("somebody else decided: %v", csr.Status.Conditions)
	}
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
	}}
	if _, err := requests.UpdateApproval(t.Context(), name, csr, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func testNodeCIDR(t *testing.T, cp *ControlPlane) {
	nodes := clientFor(t, cp.RESTConfig()).CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), newNode("cidr"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node has a pod CIDR", func(ctx context.Context) (bool, error) {
		n, err := nodes.Get(ctx, "cidr", metav1.GetOptions{})
		if err != nil || n.Spec.PodCIDR == "" {
			return false, err
		}
		if !strings.HasPrefix(n.Spec.PodCIDR, "10.244.") || !strings.HasSuffix(n.Spec.PodCIDR, "/24") {
			return false, fmt.Errorf("pod CIDR %s", n.Spec.PodCIDR)
		}
		return true, nil
	})
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
}

// testNodeRestriction: the Node authorizer and NodeRestriction keep a node to itself.
func testNodeRestriction(t *testing.T, cp *ControlPlane) {
	admin := clientFor(t, cp.RESTConfig()).CoreV1()
	kubelet := nodeClient(t, cp, "mine").CoreV1()
	if _, err := kubelet.Nodes().Create(t.Context(), newNode("mine"), metav1.CreateOptions{}); err != nil {
		t.Fatalf("a node cannot register itself: %v", err)
	}
	if _, err := admin.Nodes().Create(t.Context(), newNode("other"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}}
	if _, err := admin.Secrets(metav1.NamespaceDefault).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(node, body string) error {
		_, err := kubelet.Nodes().Patch(t.Context(), node, "application/merge-patch+json", []byte(body), metav1.PatchOptions{})
		return err
	}
	if err := patch("mine", `{"metadata":{"annotations":{"a":"b"}}}`); err != nil {
		t.Errorf("a node cannot change itself: %v", err)
	}
	_, secretErr := kubelet.Secrets(metav1.NamespaceDefault).Get(t.Context(), "secret", metav1.GetOptions{})
	_, createErr := kubelet.Nodes().Create(t.Context(), newNode("third"), metav1.CreateOptions{})
	for what, err := range map[string]error{
		"changes another node":     patch("other", `{"metadata":{"annotations":{"a":"b"}}}`),
		"gives itself a role":      patch("mine", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`),
		"reads somebody's secret":  secretErr,
		"registers another's name": createErr,
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("a node %s: %v", what, err)
		}
	}
}

const widgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: %[1]ss, singular: %[1]s, kind: %[2]s, categories: [%[1]s-parts]}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}
  - {name: v0, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
`

func testApply(t *testing.T, cp *ControlPlane) {
	manifest := fmt.Sprintf(widgetCRD, "widget", "Widget") + `
---
apiVersion: v1
kind: Namespace
metadata: {name: widgets}
---
apiVersion: v1
kind: List
items:
- {apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: widgets}, spec: {size: %d}}
- {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}
`
	for _, size := range []int{1, 2} {
		if err := cp.Apply(t.Context(), fmt.Appendf(nil, manifest, size)); err != nil {
			t.Fatal(err)
		}
		out, err := cp.Kubectl(t.Context(), "get", "widgets", "-A", "-o", "jsonpath={range .items[*]}{.metadata.namespace}:{.spec.size} {end}")
		if want := fmt.Sprintf("default: widgets:%d ", size); err != nil || string(out) != want {
			t.Errorf("%q, want %q: %v", out, want, err)
		}
	}
	if err := cp.Apply(t.Context(), []byte("apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}\n")); err == nil {
		t.Error("an object of an unknown kind is applied")
	}
}

func testInstallCRDs(t *testing.T, cp *ControlPlane) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "gizmo.yaml"), fmt.Sprintf(widgetCRD, "gizmo", "Gizmo"))
	single := filepath.Join(t.TempDir(), "gear.yaml")
	writeFile(t, single, fmt.Sprintf(widgetCRD, "gear", "Gear"))
	// From now on kubectl knows what kinds there are, and would not ask again for a category.
	if out, err := cp.Kubectl(t.Context(), "get", "namespaces"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := cp.InstallCRDs(t.Context(), dir, single); err != nil {
		t.Fatal(err)
	}
	if out, err := cp.Kubectl(t.Context(), "get", "gear-parts"); err != nil {
		t.Errorf("a category that is new: %v: %s", err, out)
	}
	for _, plural := range []string{"gizmos", "gears"} {
		if out, err := cp.Kubectl(t.Context(), "get", "--raw", "/apis/example.com/v1/"+plural); err != nil {
			t.Errorf("%s: %v: %s", plural, err, out)
		}
	}
	writeFile(t, single, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
	if err := cp.InstallCRDs(t.Context(), single); !errors.Is(err, ErrManifest) {
		t.Errorf("a ConfigMap as a CRD: %v", err)
	}
}

func testServiceAccountKubeconfig(t *testing.T, cp *ControlPlane) {
	err := cp.Apply(t.Context(), []byte(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: robot}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: robot, namespace: default}]
`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := cp.ServiceAccountKubeconfig(t.Context(), "default", "robot")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(b)
	if err != nil {
		t.Fatal(err)
	}
	robot := clientFor(t, config).CoreV1()
	// The authorizer sees a new binding a moment later.
	eventually(t, "the account may list its namespace", func(ctx context.Context) (bool, error) {
		_, err := robot.ConfigMaps("default").List(ctx, metav1.ListOptions{})
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
	if _, err := robot.ConfigMaps("kube-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the account lists another namespace: %v", err)
	}
	if _, err := cp.ServiceAccountKubeconfig(t.Context(), "default", "nobody"); !apierrors.IsNotFound(err) {
		t.Errorf("an absent account: %v", err)
	}
}

func testKubectl(t *testing.T, cp *ControlPlane) {
	out, err := cp.Kubectl(t.Context(), "version", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	root, err := gobuild.Root()
	if err != nil {
		t.Fatal(err)
	}
	m, err := gobuild.OpenModule(filepath.Join(root, sourceFolder))
	if err != nil {
		t.Fatal(err)
	}
	version, err := m.Version("k8s.io/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	// Both kubectl and the server report the version that was built.
	if got := strings.Count(string(out), `"gitVersion": "`+version+`"`); got != 2 {
		t.Errorf("%s occurs %d times in %s", version, got, out)
	}
	_, err = cp.Kubectl(t.Context(), "get", "configmap", "none")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(err.Error(), "NotFound") {
		t.Errorf("error %v", err)
	}
}
