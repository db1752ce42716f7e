package controlplane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// helperVariable makes this test binary run a control plane in that folder until it is killed.
const helperVariable = "CONTROLPLANE_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperVariable); dir != "" {
		os.Exit(runHelper(dir))
	}
	os.Exit(m.Run())
}

func runHelper(dir string) int {
	if _, err := Start(context.Background(), Options{Dir: dir, NoControllerManager: true}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("started")
	select {}
}

// eventually polls a condition for at most 30 s.
func eventually(t *testing.T, what string, condition func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, condition); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func clientFor(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// nodeClient acts as the kubelet of a node.
func nodeClient(t *testing.T, cp *ControlPlane, node string) *kubernetes.Clientset {
	t.Helper()
	config, err := cp.UserConfig("system:node:"+node, "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	return clientFor(t, config)
}

// processesIn lists the processes whose working directory is dir; ended ones that nobody has waited for have none.
func processesIn(t *testing.T, dir string) []int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, link := range links {
		// A process may end meanwhile.
		if cwd, err := os.Readlink(link); err == nil && strings.TrimSuffix(cwd, " (deleted)") == dir {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, pid)
		}
	}
	return out
}

// TestOneControlPlane looks at one control plane from all sides, since a start costs seconds.
func TestOneControlPlane(t *testing.T) {
	begin := time.Now()
	cp := StartForTest(t, Options{NodeCIDRs: "10.244.0.0/16"})
	t.Logf("ready after %.1f s", time.Since(begin).Seconds())
	t.Run("ports", func(t *testing.T) { testOnePort(t, cp) })
	t.Run("use", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *ControlPlane){
			"serving certificate":    testServingCertificate,
			"node CIDR":              testNodeCIDR,
			"node restriction":       testNodeRestriction,
			"apply":                  testApply,
			"install CRDs":           testInstallCRDs,
			"service account config": testServiceAccountKubeconfig,
			"kubectl":                testKubectl,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, cp)
			})
		}
	})
	t.Run("restart", func(t *testing.T) { testRestart(t, cp) })
	t.Run("end of a component", func(t *testing.T) { testComponentEnds(t, cp) })
}

// testOnePort: only the API server listens, on its one port.
func testOnePort(t *testing.T, cp *ControlPlane) {
	pids := processesIn(t, cp.Dir())
	if len(pids) != 3 {
		t.Fatalf("%d processes run, want etcd, API server and controller manager", len(pids))
	}
	inodes := map[string]bool{}
	for _, pid := range pids {
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, "socket:[") {
				inodes[strings.Trim(target, "socket:[]")] = true
			}
		}
	}
	if got, want := listening(t, inodes), []int{cp.port.port}; !slices.Equal(got, want) {
		t.Errorf("listens on ports %v, want %v", got, want)
	}
}

// listening reads the ports of listening TCP sockets (state 0A, proc(5)) with these inodes.
func listening(t *testing.T, inodes map[string]bool) []int {
	t.Helper()
	var out []int
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := readFile(table, 64<<20)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != "0A" || !inodes[fields[9]] {
				continue
			}
			port, err := strconv.ParseInt(fields[1][strings.LastIndex(fields[1], ":")+1:], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, int(port))
		}
	}
	return out
}

func testRestart(t *testing.T, cp *ControlPlane) {
	secrets := clientFor(t, cp.RESTConfig()).CoreV1().Secrets(metav1.NamespaceDefault)
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := cp.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("restarted after %.1f s", time.Since(begin).Seconds())
	if _, err := secrets.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	if err := cp.Err(); err != nil {
		t.Errorf("the restart counts as a failure: %v", err)
	}
}

func testComponentEnds(t *testing.T, cp *ControlPlane) {
	cp.mu.Lock()
	etcd := cp.running[0]
	cp.mu.Unlock()
	if err := etcd.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-cp.Done()
	if err := cp.Err(); err == nil || !strings.Contains(err.Error(), "etcd has ended") {
		t.Errorf("error %v", err)
	}
}

func TestTwoSideBySide(t *testing.T) {
	t.Parallel()
	dirs := make([]string, 2)
	t.Run("both", func(t *testing.T) {
		for i := range dirs {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				cp := StartForTest(t, Options{NoControllerManager: true})
				dirs[i] = cp.Dir()
				c := clientFor(t, cp.RESTConfig()).CoreV1()
				if _, err := c.Nodes().Create(t.Context(), newNode("n"+strconv.Itoa(i)), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				nodes, err := c.Nodes().List(t.Context(), metav1.ListOptions{})
				if err != nil || len(nodes.Items) != 1 {
					t.Errorf("%d nodes: %v", len(nodes.Items), err)
				}
				if n := len(processesIn(t, cp.Dir())); n != 2 {
					t.Errorf("%d processes", n)
				}
			})
		}
	})
	for _, dir := range dirs {
		assertNothingLeft(t, dir)
	}
}

// TestRestartControllerManager: a node that was given no range gets one from a controller manager that was told to give them.
func TestRestartControllerManager(t *testing.T) {
	t.Parallel()
	cp := StartForTest(t, Options{})
	nodes := clientFor(t, cp.RESTConfig()).CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), newNode("linux-1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cp.RestartControllerManager("--allocate-node-cidrs", "--cluster-cidr=10.200.0.0/16"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node has a range", func(ctx context.Context) (bool, error) {
		n, err := nodes.Get(ctx, "linux-1", metav1.GetOptions{})
		if err != nil || n.Spec.PodCIDR == "" {
			return false, err
		}
		if n.Spec.PodCIDR != "10.200.0.0/24" {
			return false, fmt.Errorf("its range is %s", n.Spec.PodCIDR)
		}
		return true, nil
	})
}

func assertNothingLeft(t *testing.T, dir string) {
	t.Helper()
	if pids := processesIn(t, dir); len(pids) != 0 {
		t.Errorf("processes %v still run", pids)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder %s is still there: %v", dir, err)
	}
}

func TestStartFails(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	foreign, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	tests := map[string]struct {
		ctx  context.Context
		opts Options
		want func(error) bool
	}{
		"a component refuses to start": {
			ctx: t.Context(), opts: Options{APIServerArgs: []string{"--no-such-flag"}},
			want: func(err error) bool {
				return strings.Contains(err.Error(), "kube-apiserver has ended") && strings.Contains(err.Error(), "unknown flag: --no-such-flag")
			},
		},
		"canceled": {ctx: canceled, want: func(err error) bool { return errors.Is(err, context.Canceled) }},
		"a port of somebody else": {
			ctx: t.Context(), opts: Options{Port: foreign.Addr().(*net.TCPAddr).Port},
			want: func(err error) bool { return errors.Is(err, ErrPortTaken) },
		},
		"no range": {ctx: t.Context(), opts: Options{NodeCIDRs: "x"}, want: func(err error) bool { return err != nil }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.opts.Dir = filepath.Join(t.TempDir(), "data")
			cp, err := Start(tt.ctx, tt.opts)
			if err == nil {
				t.Fatal("started", cp.Stop())
			}
			if !tt.want(err) {
				t.Errorf("error %v", err)
			}
			assertNothingLeft(t, tt.opts.Dir)
		})
	}
	answered := make(chan error, 1)
	go func() {
		c, err := foreign.Accept()
		if err == nil {
			err = c.Close()
		}
		answered <- err
	}()
	c, err := net.Dial("tcp", foreign.Addr().String())
	if err != nil {
		t.Fatalf("the foreign listener is gone: %v", err)
	}
	defer c.Close()
	if err := <-answered; err != nil {
		t.Errorf("the foreign listener does not serve any more: %v", err)
	}
}

// TestKilled: when the process that started a control plane is killed, its components end and the folder can be claimed.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	helper := exec.CommandContext(t.Context(), exe, "-test.run=^$")
	helper.Env = append(os.Environ(), helperVariable+"="+dir)
	helper.Stderr = os.Stderr
	stdout, err := helper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(io.LimitReader(stdout, 1<<10)).ReadString('\n')
	if err != nil || line != "started\n" {
		t.Fatalf("the helper said %q: %v", line, err)
	}
	if n := len(processesIn(t, dir)); n != 2 {
		t.Errorf("%d processes before the kill", n)
	}
	if err := helper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := helper.Wait(); err == nil {
		t.Fatal("the helper was not killed")
	}
	eventually(t, "the components end", func(context.Context) (bool, error) { return len(processesIn(t, dir)) == 0, nil })
	f, err := newFolder(dir)
	if err != nil {
		t.Fatalf("claiming the folder: %v", err)
	}
	if err := f.remove(); err != nil {
		t.Error(err)
	}
}

func TestStopTwice(t *testing.T) {
	cp := &ControlPlane{done: make(chan struct{})}
	for range 2 {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	}
	if err := cp.launch("etcd", nil); !errors.Is(err, errStopped) {
		t.Errorf("a start after the stop: %v", err)
	}
}
