package winrm

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/windowsmachine/operator/pkg/transport/winrm/winrmtest"
)

// lines are all of them, with a port.
func lines() []string {
	return []string{
		queryService, autostart, startService, createTask, runTask, queryTask, deleteTask, download, hashFile, install, removeMSI, protectKeys, ownKeys,
		readEd25519, readECDSA, readRSA, showRule(22), addRule(65535),
	}
}

// cmd.exe gets words that it reads in one way only, and programs by their whole path.
func TestLinesArePlain(t *testing.T) {
	plain := regexp.MustCompile(`^[A-Za-z0-9:\\._/=~*+" -]+$`)
	for _, l := range lines() {
		if !plain.MatchString(l) || strings.Count(l, `"`)%2 != 0 {
			t.Errorf("not plain: %s", l)
		}
		if !strings.HasPrefix(l, `C:\Windows\System32\`) && l != removeMSI {
			t.Errorf("found by PATH: %s", l)
		}
	}
}

func TestTaskResult(t *testing.T) {
	for in, want := range map[string]uint32{
		`"H","\t","N/A","Running","Interactive/Background","12/1/2026 1:00:00 AM","267009","A","B"`:      taskRunning,
		`"H","\t","Nicht, zutreffend","Wird ""x""","a","01.12.2026 00:00:00","-2146498220","A"` + "\r\n": 0x800f0954,
		`"H","\t","","","","","0"`: 0,
	} {
		if got, err := taskResult([]byte(in)); err != nil || got != want {
			t.Errorf("%s is %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", `"a","b"`, `"1","2","3","4","5","6","Running"`, `"a"b"`} {
		if got, err := taskResult([]byte(in)); !errors.Is(err, errAnswer) {
			t.Errorf("%q is %d, %v", in, got, err)
		}
	}
}

func TestHashOf(t *testing.T) {
	want := winrmtest.InstallerSHA256()
	var old []string
	for i := 0; i < len(want); i += 2 {
		old = append(old, want[i:i+2])
	}
	for _, in := range []string{
		"SHA256 hash of C:\\x:\r\n" + want + "\r\nCertUtil: -hashfile command completed successfully.\r\n",
		"SHA256-Hash:\r\n" + strings.ToUpper(want) + "\r\n",
		"SHA256 hash of file C:\\x:\r\n" + strings.Join(old, " ") + "\r\nCertUtil\r\n",
	} {
		if got, err := hashOf([]byte(in)); err != nil || got != want {
			t.Errorf("%q is %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", want[1:], want + "0", "hash " + want} {
		if got, err := hashOf([]byte(in)); !errors.Is(err, errAnswer) {
			t.Errorf("%q is %q", in, got)
		}
	}
}

func TestParseHostKey(t *testing.T) {
	for _, line := range []string{winrmtest.Ed25519Line, winrmtest.ECDSALine, winrmtest.AuthorizedKey + "\r\n"} {
		k, err := parseHostKey([]byte(line))
		f := strings.Fields(line)
		if err != nil || k.Algorithm != f[0] || base64.StdEncoding.EncodeToString(k.Key) != f[1] {
			t.Errorf("%q is %+v, %v", line, k, err)
			continue
		}
		if sum := sha256.Sum256(k.Key); k.Fingerprint != "SHA256:"+base64.RawStdEncoding.EncodeToString(sum[:]) {
			t.Errorf("fingerprint %s", k.Fingerprint)
		}
	}
	for _, line := range []string{
		"", "ssh-ed25519", "ssh-ed25519 ***", "ssh-ed25519 AAAA", "ssh-dss AAAAB3NzaC1kc3MAAAA=", strings.Replace(winrmtest.ECDSALine, "ecdsa-sha2-nistp256", "ssh-ed25519", 1),
		// A file that is not written to its end, at any place where base64 may end.
		winrmtest.AuthorizedKey[:40], winrmtest.AuthorizedKey[:76], winrmtest.AuthorizedKey[:len(winrmtest.AuthorizedKey)-4], winrmtest.ECDSALine[:120],
	} {
		if k, err := parseHostKey([]byte(line)); err == nil {
			t.Errorf("%q is %+v", line, k)
		}
	}
}

// What curl reads as options holds nothing that the address could add.
func TestCurlOptions(t *testing.T) {
	got := string(curlOptions("https://mirror.example/a.msi"))
	if strings.Count(got, "\n") != 10 || !strings.Contains(got, "output = \"C:\\\\Windows\\\\wmcb\\\\openssh.msi\"\n") {
		t.Errorf("options %q", got)
	}
	for _, bad := range []string{"https://a\"", "https://a/\n", "https://a/%41", "https://a/?x=1&y", "http://a/", "https://", "https://[::1", "https://user:x@a/", "file:///c", "https://a/ b"} {
		if !badURL(bad) {
			t.Errorf("%q is taken", bad)
		}
	}
	for _, good := range []string{"https://a", "https://a.example:8443/b/c-1.2+x@y~z=1.msi", "https://[2001:db8::1]/x"} {
		if badURL(good) {
			t.Errorf("%q is refused", good)
		}
	}
}

func TestProgram(t *testing.T) {
	for in, want := range map[string]string{queryService: "sc.exe", removeMSI: "del", "x": "x", `C:\a\b.exe`: "b.exe", `C:\a.exe C:\b.exe`: "a.exe"} {
		if got := program(in); got != want {
			t.Errorf("%s is %s", in, got)
		}
	}
}

// A 401 may offer anything; a challenge is bounded and decoded with care.
func TestChallenge(t *testing.T) {
	h := http.Header{}
	h.Add("WWW-Authenticate", `Basic realm="WSMAN"`)
	if pick(h) != "" || offered(h) != "Basic" {
		t.Errorf("picked %q of %q", pick(h), offered(h))
	}
	h.Add("WWW-Authenticate", "negotiate "+base64.StdEncoding.EncodeToString([]byte("x")))
	if b, err := challengeOf(h, "Negotiate"); pick(h) != "Negotiate" || string(b) != "x" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	for _, bad := range []string{"***", strings.Repeat("A", maxChallenge+4)} {
		if _, err := challengeOf(http.Header{"Www-Authenticate": {"Negotiate " + bad}}, "Negotiate"); err == nil {
			t.Errorf("%.10s is taken", bad)
		}
	}
}

// FuzzChallenge feeds NTLM challenges of any kind to the library: nothing ends the operator.
func FuzzChallenge(f *testing.F) {
	f.Add([]byte("NTLMSSP\x00\x02\x00\x00\x00"))
	f.Add(append([]byte("NTLMSSP\x00\x02\x00\x00\x00\x08\x00\x08\x00\x38\x00\x00\x00\x37\x82\x8a\xe0"), make([]byte, 64)...))
	f.Fuzz(func(t *testing.T, challenge []byte) {
		n := &ntlm{user: `D\u`, password: "canary-of-a-password"}
		c, err := n.client()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := authenticate(c, nil, nil); err != nil {
			t.Fatal(err)
		}
		out, err := authenticate(c, challenge, nil)
		if strings.Contains(string(out), "canary") {
			t.Error("the answer holds the password")
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Error("the error holds the password")
		}
	})
}

func TestBindingHash(t *testing.T) {
	for a, want := range map[x509.SignatureAlgorithm]int{
		x509.SHA1WithRSA: 32, x509.SHA256WithRSA: 32, x509.ECDSAWithSHA384: 48, x509.SHA512WithRSAPSS: 64, x509.PureEd25519: 32,
	} {
		if got := bindingHash(a).Size(); got != want {
			t.Errorf("%s: %d bytes", a, got)
		}
	}
}
