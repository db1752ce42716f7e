package controlplane

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestOptionsNetwork(t *testing.T) {
	tests := map[string]struct {
		opts    Options
		want    network
		wantErr bool
	}{
		"defaults": {want: network{serviceCIDR: "10.96.0.0/16", apiServiceIP: net.IP{10, 96, 0, 1}}},
		"both, not on the boundary": {
			opts: Options{ServiceCIDR: "172.30.5.0/16", NodeCIDRs: "10.244.0.0/16"},
			want: network{serviceCIDR: "172.30.0.0/16", apiServiceIP: net.IP{172, 30, 0, 1}, nodeCIDRs: "10.244.0.0/16"},
		},
		"overlap":     {opts: Options{NodeCIDRs: "10.96.128.0/17"}, wantErr: true},
		"no range":    {opts: Options{ServiceCIDR: "10.96.0.0"}, wantErr: true},
		"no range up": {opts: Options{NodeCIDRs: "nodes"}, wantErr: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tt.opts.network()
			if (err != nil) != tt.wantErr {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(network{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestArgs(t *testing.T) {
	n := network{serviceCIDR: "10.96.0.0/16", nodeCIDRs: "10.244.0.0/16"}
	api := apiServerArgs(n, 1234, []string{"--v=9"})
	manager := controllerManagerArgs(n, []string{"--v=8"})
	for _, want := range []string{"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--secure-port=1234"} {
		if !slices.Contains(api, want) {
			t.Errorf("the API server lacks %s", want)
		}
	}
	for _, want := range []string{"--allocate-node-cidrs", "--cluster-cidr=10.244.0.0/16", "--use-service-account-credentials"} {
		if !slices.Contains(manager, want) {
			t.Errorf("the controller manager lacks %s", want)
		}
	}
	if api[len(api)-1] != "--v=9" || manager[len(manager)-1] != "--v=8" {
		t.Error("extra flags do not come last")
	}
	for _, arg := range slices.Concat(api, controllerManagerArgs(network{}, nil)) {
		if strings.HasPrefix(arg, "--enable-bootstrap-token-auth") || strings.HasPrefix(arg, "--allocate-node-cidrs") {
			t.Errorf("unwanted flag %s", arg)
		}
	}
	for _, arg := range etcdArgs() {
		if strings.Contains(arg, "http") {
			t.Errorf("etcd listens on a port: %s", arg)
		}
	}
}

func TestReservedPortsDiffer(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		r, err := reservePort(0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.close(); err != nil {
				t.Error(err)
			}
		})
		if seen[r.port] {
			t.Fatalf("port %d was reserved twice", r.port)
		}
		seen[r.port] = true
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", r.port)); err == nil {
			l.Close()
			t.Fatalf("somebody else could take the reserved port %d", r.port)
		}
	}
}

func TestReservePortOfAnother(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := reservePort(l.Addr().(*net.TCPAddr).Port); !errors.Is(err, ErrPortTaken) {
		t.Errorf("error %v", err)
	}
}

func TestCertificates(t *testing.T) {
	ca, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.server("api", []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	client, err := ca.client("system:node:a", "system:nodes", "others")
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.certPEM)
	verify := func(p pair, usage x509.ExtKeyUsage) (*x509.Certificate, error) {
		loaded, err := tls.X509KeyPair(p.cert, p.key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = loaded.Leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{usage}})
		return loaded.Leaf, err
	}
	leaf, err := verify(server, x509.ExtKeyUsageServerAuth)
	if err != nil || leaf.VerifyHostname("127.0.0.1") != nil || leaf.VerifyHostname("localhost") != nil {
		t.Errorf("serving certificate: %v", err)
	}
	leaf, err = verify(client, x509.ExtKeyUsageClientAuth)
	groups := slices.Sorted(slices.Values(leaf.Subject.Organization))
	if err != nil || leaf.Subject.CommonName != "system:node:a" || !slices.Equal(groups, []string{"others", "system:nodes"}) {
		t.Errorf("client certificate: %v, subject %v", err, leaf.Subject)
	}
	if _, err := verify(client, x509.ExtKeyUsageServerAuth); err == nil {
		t.Error("a client certificate serves")
	}
}

func TestMarshalConfig(t *testing.T) {
	in := &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca")}}
	b, err := marshalConfig(in, "some-namespace")
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := clientcmd.NewClientConfigFromBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	out, err := loaded.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	namespace, _, err := loaded.Namespace()
	if err != nil || namespace != "some-namespace" || out.Host != in.Host || out.BearerToken != "t" || string(out.CAData) != "ca" {
		t.Errorf("%v: namespace %q, config %v", err, namespace, out)
	}
}

func TestTails(t *testing.T) {
	var b tailBuffer
	for range 3 {
		if _, err := b.Write([]byte(strings.Repeat("x", maxTail/2) + "end")); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.String(); len(got) > maxTail || !strings.HasSuffix(got, "end") {
		t.Errorf("%d bytes, end %q", len(got), got[len(got)-3:])
	}
	path := filepath.Join(t.TempDir(), "log")
	for _, size := range []int{0, 10, maxTail, 3 * maxTail} {
		writeFile(t, path, strings.Repeat("y", size)+"end")
		if got := fileTail(path); len(got) > maxTail || len(got) != min(size+3, maxTail) || !strings.HasSuffix(got, "end") {
			t.Errorf("file of %d bytes: %d bytes", size+3, len(got))
		}
	}
}

func TestKubectlOutputIsBounded(t *testing.T) {
	l := limitedBuffer{limit: 4}
	if _, err := l.Write([]byte("1234")); err != nil {
		t.Error(err)
	}
	if _, err := l.Write([]byte("5")); !errors.Is(err, ErrOutputTooLarge) {
		t.Errorf("over the limit: %v", err)
	}
}

func TestFolder(t *testing.T) {
	parent := t.TempDir()
	absent := filepath.Join(parent, "a", "b")
	f, err := newFolder(absent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newFolder(absent); !errors.Is(err, ErrFolderInUse) {
		t.Errorf("a folder that is held: %v", err)
	}
	writeFile(t, filepath.Join(absent, "data"), "x")
	if err := f.lock.Close(); err != nil { // As after a kill.
		t.Fatal(err)
	}
	again, err := newFolder(absent)
	if err != nil {
		t.Fatalf("an abandoned folder: %v", err)
	}
	if diff := cmp.Diff([]string{lockName}, names(t, absent)); diff != "" {
		t.Error(diff)
	}
	if err := again.remove(); err != nil || len(names(t, absent)) != 0 {
		t.Errorf("a folder that was there before must stay, empty: %v", err)
	}
	writeFile(t, filepath.Join(absent, "foreign"), "x")
	if _, err := newFolder(absent); !errors.Is(err, ErrFolderInUse) {
		t.Errorf("a foreign folder: %v", err)
	}
}

func TestSweepTakesOnlyAbandonedFoldersOfOurs(t *testing.T) {
	parent := t.TempDir()
	add := func(name string, locked, abandoned bool) {
		path := filepath.Join(parent, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if !locked {
			return
		}
		f, err := lockFolder(path, false)
		if err != nil {
			t.Fatal(err)
		}
		if abandoned {
			if err := f.lock.Close(); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Cleanup(func() { f.lock.Close() })
	}
	add(folderPrefix+"abandoned", true, true)
	add(folderPrefix+"held", true, false)
	add(folderPrefix+"just-made", false, false)
	add("another-abandoned", true, true)
	sweep(parent)
	want := []string{"another-abandoned", folderPrefix + "held", folderPrefix + "just-made"}
	if diff := cmp.Diff(want, names(t, parent)); diff != "" {
		t.Error(diff)
	}
}

func TestParseManifest(t *testing.T) {
	const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"
	one := fmt.Sprintf(configMap, "a")
	tests := map[string]struct {
		manifest string
		want     []string
		wantErr  bool
	}{
		"nothing":          {},
		"comments only":    {manifest: "# hello\n---\n---\n"},
		"two documents":    {manifest: one + "---\n" + fmt.Sprintf(configMap, "b"), want: []string{"a", "b"}},
		"a list":           {manifest: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n", want: []string{"c"}},
		"JSON":             {manifest: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"j"}}`, want: []string{"j"}},
		"no YAML":          {manifest: "a: [", wantErr: true},
		"a scalar":         {manifest: "hello", wantErr: true},
		"no name":          {manifest: "apiVersion: v1\nkind: ConfigMap\n", wantErr: true},
		"no kind":          {manifest: "apiVersion: v1\nmetadata: {name: a}\n", wantErr: true},
		"nameless in list": {manifest: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap}\n", wantErr: true},
		"too large":        {manifest: strings.Repeat("#", maxManifest+1), wantErr: true},
		"too many":         {manifest: strings.Repeat(one+"---\n", maxDocuments+1), wantErr: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			objects, err := parseManifest([]byte(tt.manifest))
			if (err != nil) != tt.wantErr || (tt.wantErr && !errors.Is(err, ErrManifest)) {
				t.Fatalf("error %v", err)
			}
			if tt.wantErr {
				return
			}
			var got []string
			for _, o := range objects {
				got = append(got, o.GetName())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestManifestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.yaml", "a.yaml", "kustomization.yaml", "README.md"} {
		writeFile(t, filepath.Join(dir, name), "")
	}
	single := filepath.Join(dir, "README.md")
	got, err := manifestFiles([]string{single, dir})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{single, filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := manifestFiles([]string{filepath.Join(dir, "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

// servingRequest is a certificate request for a node's serving certificate.
func servingRequest(t *testing.T, node string) []byte {
	t.Helper()
	key, _, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
		DNSNames: []string{node},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
