package cni

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const (
	sdnbridge = `{"cniVersion":"0.2.0","name":"l2bridge","type":"sdnbridge","master":"Ethernet","capabilities":{"portMappings":true,"dns":true},
"ipam":{"environment":"azure","subnet":"10.244.1.0/24","routes":[{"GW":"10.244.1.2"}]},"dns":{"Nameservers":["10.96.0.10"],"Search":["svc.cluster.local"]},
"AdditionalArgs":[{"Name":"EndpointPolicy","Value":{"Type":"OutBoundNAT","ExceptionList":["10.244.0.0/16"]}}]}`
	overlay = `{"cniVersion":"0.2.0","name":"OVNKubernetesHybridOverlayNetwork","type":"win-overlay","apiVersion":2,
"policies":[{"name":"EndpointPolicy","value":{"Type":"OutBoundNAT","Settings":{"Exceptions":["172.30.0.0/16"]}}}]}`
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     Config
	}{
		{"conf", overlay, Config{Version: "0.2.0", Name: "OVNKubernetesHybridOverlayNetwork", Types: []string{"win-overlay"}}},
		{"sdnbridge's own spelling", sdnbridge, Config{Version: "0.2.0", Name: "l2bridge", Types: []string{"sdnbridge"}}},
		{
			"list", `{"cniVersion":"1.1.0","name":"cbr0","disableGC":true,"plugins":[{"type":"flannel"},{"type":"portmap"}]}`,
			Config{Version: "1.1.0", Name: "cbr0", Types: []string{"flannel", "portmap"}, List: true},
		},
	} {
		got, err := Parse([]byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(Config{}, "Plugins")); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	for _, v := range Versions() {
		if _, err := Parse(fmt.Appendf(nil, `{"cniVersion":%q,"name":"n","type":"t"}`, v)); err != nil {
			t.Errorf("%s: %v", v, err)
		}
	}
}

func TestW66ConfigFromAnyEditor(t *testing.T) {
	want, err := Parse([]byte(overlay))
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]string{
		"BOM": "\xef\xbb\xbf" + overlay, "CRLF": strings.ReplaceAll(overlay, "\n", "\r\n"),
		"both": "\xef\xbb\xbf" + strings.ReplaceAll(overlay, "\n", "\r\n"),
	} {
		got, err := Parse([]byte(in))
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	_, err = Parse([]byte("\xff\xfe{\x00"))
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "UTF-16") {
		t.Errorf("got %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "not a JSON object"},
		{"null", "null", "null"},
		{"list at the top", "[]", "not a JSON object"},
		{"two documents", overlay + overlay, "something follows the end"},
		{"too large", strings.Repeat(" ", MaxSize+1), "65537 bytes, at most 65536"},
		{"too deep", strings.Repeat("[", 33), "nested more than 32 deep"},
		{"not UTF-8", "{\"name\":\"\xe9\"}", "not UTF-8"},
		{"no version", `{"name":"n","type":"t"}`, "cniVersion is missing"},
		{"future version", `{"cniVersion":"2.0.0","name":"n","type":"t"}`, `"2.0.0" is none of 0.2.0`},
		{"no name, no type", `{"cniVersion":"1.0.0"}`, "name is missing; type is missing"},
		{"name with slash", `{"cniVersion":"1.0.0","name":"a/b","type":"t"}`, `"a/b" must match`},
		{"type with folder", `{"cniVersion":"1.0.0","name":"n","type":"..\\x"}`, "must be a file name"},
		{"no plugins", `{"cniVersion":"1.0.0","name":"n","plugins":[]}`, "at least one"},
		{"many plugins", `{"cniVersion":"1.0.0","name":"n","plugins":[` + strings.Repeat(`{"type":"t"},`, 16) + `{"type":"t"}]}`, "17 plugins, at most 16"},
		{"plugin is no object", `{"cniVersion":"1.0.0","name":"n","plugins":[1]}`, "plugins[0] is no object"},
		{"plugin without type", `{"cniVersion":"1.0.0","name":"n","plugins":[{}]}`, "plugins[0].type is missing"},
		{"capital key", `{"CniVersion":"1.0.0","name":"n","type":"t"}`, `"CniVersion" must be written "cniVersion"`},
		{"capital inner key", `{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"t","Ipam":{}}]}`, `"Ipam" must be written "ipam"`},
	} {
		_, err := Parse([]byte(c.in))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestW15SameContentIsNotRewritten(t *testing.T) {
	right := "{\n  \"cniVersion\": \"1.0.0\"\n}\n"
	for _, c := range []struct {
		name, existing string
		want           bool
	}{
		{"same", right, true},
		{"CRLF", strings.ReplaceAll(right, "\n", "\r\n"), true},
		{"byte order mark", "\xef\xbb\xbf" + right, true},
		{"both", "\xef\xbb\xbf" + strings.ReplaceAll(right, "\n", "\r\n"), true},
		{"empty file", "", false},
		{"other content", strings.ReplaceAll(right, "1.0.0", "0.2.0"), false},
		{"mark inside", "{\xef\xbb\xbf" + right[1:], false},
	} {
		if got := Equal([]byte(c.existing), []byte(right)); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
	if !Equal(nil, []byte{}) {
		t.Error("two empty files are equal")
	}
}

func TestW16FirstByNameWins(t *testing.T) {
	stale := []byte(`{"cniVersion":"0.3.0","name":"cbr0","plugins":[{"type":"flannel"}]}`)
	for _, c := range []struct {
		name   string
		files  map[string][]byte
		winner string
		others []string
		ok     bool
	}{
		{"nothing", nil, "", nil, false},
		{"stale one before ours", map[string][]byte{"00-old.conflist": stale, "cni.conf": []byte(overlay)}, "00-old.conflist", []string{"cni.conf"}, true},
		{
			"ours before a later one",
			map[string][]byte{"10-windowsmachine.conflist": stale, "cni.conf": []byte(overlay)},
			"10-windowsmachine.conflist",
			[]string{"cni.conf"},
			true,
		},
		{
			"broken ones are passed over",
			map[string][]byte{"00-x.conf": nil, "05-y.json": []byte("x"), "cni.conf": []byte(overlay)},
			"cni.conf",
			[]string{"00-x.conf", "05-y.json"},
			true,
		},
		{"other files", map[string][]byte{"00-x.conf.bak": stale, "README": nil, "z.conf": []byte(overlay)}, "z.conf", nil, true},
		{"only broken", map[string][]byte{"a.conf": nil}, "", []string{"a.conf"}, false},
	} {
		winner, others, ok := Usable(c.files)
		if winner != c.winner || ok != c.ok || !cmp.Equal(others, c.others) {
			t.Errorf("%s: got %q %v %v", c.name, winner, others, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(overlay))
	f.Add([]byte(sdnbridge))
	f.Add([]byte("\xef\xbb\xbf{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"plugins\":[{\"type\":\"t\"}]}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Parse(b)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v", err)
			}
			return
		}
		if len(c.Types) == 0 || c.Name == "" || c.Version == "" || strings.ContainsAny(strings.Join(c.Types, ""), `/\:`) {
			t.Errorf("accepted %+v", c)
		}
		if !Equal(b, b) {
			t.Error("not equal to itself")
		}
	})
}
