package openshift

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/test/bed"
)

const workerIgn = "worker.ign"

// served makes a profile of that name whose ignition stands in a Secret of the same name.
func (r *rig) served(name string, data []byte) *corev1.Secret {
	r.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: bed.Namespace, Name: name}, Data: map[string][]byte{workerIgn: data}}
	r.create(s)
	r.profileOf(name, v1alpha1.IgnitionSpec{SecretName: name})
	return s
}

func (r *rig) profileOf(name string, ignition v1alpha1.IgnitionSpec) {
	r.t.Helper()
	port, err := r.bed.Port()
	r.must(err)
	p := profile(name, port, v1alpha1.HostKeyStrict)
	p.Spec.Ignition = &ignition
	r.create(p)
}

// replace puts other data into the Secret.
func (r *rig) replace(s *corev1.Secret, data []byte) {
	r.t.Helper()
	before := s.DeepCopy()
	s.Data = map[string][]byte{workerIgn: data}
	r.must(r.bed.Client.Patch(r.ctx, s, client.MergeFrom(before)))
}

// worker is a served ignition whose kubelet.conf has texts replaced.
func (r *rig) worker(oldnew ...string) *bed.Ignition {
	i := bed.WorkerIgnition().Serve(r.bed.CA())
	i.Put(bed.IgnitionKubeletConfig, bed.KubeletConf(oldnew...))
	return i
}

// wantSetting checks one field of the kubelet's configuration on a machine.
func (r *rig) wantSetting(machine, field string, want float64) {
	r.t.Helper()
	if got := r.settings(machine)[field]; got != want {
		r.t.Errorf("%s on %s is %v, want %v", field, machine, got, want)
	}
}

// TestServedIgnitionWins: what the profile names counts, whatever the worker pool has.
func TestServedIgnitionWins(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.azure)
	r.served("wins", r.worker("maxPods: 240", "maxPods: 42").JSON())
	r.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: bed.Namespace, Name: "wins-too"},
		Data:       map[string]string{workerIgn: string(r.worker("cluster.local", "inside.example").JSON())},
	})
	r.profileOf("wins-too", v1alpha1.IgnitionSpec{ConfigMapName: "wins-too"})

	found, _ := r.untilFacts("wins", metav1.ConditionTrue, v1alpha1.ReasonFactsComplete)
	r.goldenYAML("discovered-served.yaml", found)
	found, _ = r.untilFacts("wins-too", metav1.ConditionTrue, v1alpha1.ReasonFactsComplete)
	if found.Domain != "inside.example" || !strings.HasPrefix(found.Sources["domain"], "ConfigMap windows-machine-operator/wins-too file ") {
		t.Errorf("domain %s from %s", found.Domain, found.Sources["domain"])
	}
	r.machine("wins", "wins")
	r.untilReady("wins")
	r.wantSetting("wins", "maxPods", 42)
}

// TestW05AppendAndNoContents: what is appended counts, a Linux file without contents is nobody's business.
func TestW05AppendAndNoContents(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.azure)
	i := r.worker()
	i.File(bed.IgnitionKubeletConfig).Append = []ign.Resource{{Source: ptr.To("data:,podsPerCore%3A%2017%0A")}}
	i.Storage.Files = append(i.Storage.Files, ign.File{Node: ign.Node{Path: "/etc/some-linux-only-marker"}, FileEmbedded1: ign.FileEmbedded1{Mode: ptr.To(0o644)}})
	r.served("w05", i.JSON())
	r.machine("w05", "w05")
	r.untilReady("w05")
	r.wantSetting("w05", "podsPerCore", 17)
}

// TestW06CompressedWhole: the same ignition in every wrapping that hosted control planes use gives the same facts.
func TestW06CompressedWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.azure)
	zipped := bed.Gzip(r.worker("maxPods: 240", "maxPods: 66").JSON())
	r.served("w06-gzip", zipped)
	r.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: bed.Namespace, Name: "w06-base64"},
		Data:       map[string]string{workerIgn: base64.StdEncoding.EncodeToString(zipped) + "\n"},
	})
	r.profileOf("w06-base64", v1alpha1.IgnitionSpec{ConfigMapName: "w06-base64"})
	r.untilFacts("w06-gzip", metav1.ConditionTrue, v1alpha1.ReasonFactsComplete)
	r.machine("w06", "w06-base64")
	r.untilReady("w06")
	r.wantSetting("w06", "maxPods", 66)
}

// TestW66FromAnyEditor: a worker.ign that PowerShell wrote, with a kubelet.conf from another editor in it.
func TestW66FromAnyEditor(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.azure)
	i := r.worker()
	conf := append([]byte("\xef\xbb\xbf"), bytes.ReplaceAll(bed.KubeletConf("maxPods: 240", "maxPods: 61"), []byte("\n"), []byte("\r\n"))...)
	i.Put(bed.IgnitionKubeletConfig, conf)
	text := i.JSON()
	r.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: bed.Namespace, Name: "w66-utf16"}, BinaryData: map[string][]byte{workerIgn: utf16le(string(text))},
	})
	r.profileOf("w66-utf16", v1alpha1.IgnitionSpec{ConfigMapName: "w66-utf16"})
	r.served("w66-bom", append([]byte("\xef\xbb\xbf"), text...))
	r.untilFacts("w66-bom", metav1.ConditionTrue, v1alpha1.ReasonFactsComplete)
	r.machine("w66", "w66-utf16")
	r.untilReady("w66")
	r.wantSetting("w66", "maxPods", 61)
	if got := r.file("w66", kubeletConf); got[0] != '{' || bytes.ContainsAny(got, "\r\x00") {
		t.Errorf("kubelet.conf on the machine: %.80q", got)
	}
}

// utf16le is text as PowerShell's redirection writes it, its mark first.
func utf16le(text string) []byte {
	out := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(text)) {
		out = binary.LittleEndian.AppendUint16(out, u)
	}
	return out
}

// TestW08MissingPieces: whatever is missing is said at once, on the profile and on the host, with the object, its key and the way out;
// the machine is not called, and once the Secret is right the host goes on by itself. The golden files hold the sentences.
func TestW08MissingPieces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, reason string
		data         func(*bed.Ignition) []byte
		// mended cases go on until the node is Ready.
		mended bool
	}{
		{"no-unit", v1alpha1.ReasonIgnitionInvalid, func(i *bed.Ignition) []byte {
			i.Systemd.Units = nil
			return i.JSON()
		}, false},
		{"masked", v1alpha1.ReasonIgnitionInvalid, func(i *bed.Ignition) []byte {
			i.Kubelet().Mask = ptr.To(true)
			return i.JSON()
		}, false},
		{"many", v1alpha1.ReasonIgnitionInvalid, func(i *bed.Ignition) []byte {
			i.Drop(bed.IgnitionCloudConfig)
			i.File(bed.IgnitionKubeletConfig).Contents.Compression = ptr.To("gzip")
			return i.JSON()
		}, true},
		{"no-conf", v1alpha1.ReasonFactsMissing, func(i *bed.Ignition) []byte {
			i.Drop(bed.IgnitionKubeletConfig)
			return i.JSON()
		}, true},
		{"empty", v1alpha1.ReasonIgnitionInvalid, func(*bed.Ignition) []byte { return nil }, false},
		{"newer", v1alpha1.ReasonIgnitionInvalid, func(i *bed.Ignition) []byte {
			i.Ignition.Version = "4.0.0"
			return i.JSON()
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, name := newRig(t, run.azure), "w08-"+c.name
			secret := r.served(name, c.data(r.worker()))
			m := r.machine(name, name)
			_, said := r.untilFacts(name, metav1.ConditionFalse, c.reason)
			r.until("the host says the same", func() (bool, string) {
				host := readyOf(r.host(name))
				return host.Reason == c.reason && host.Message == said.Message, state(host)
			})
			r.golden(name+".txt", []byte(said.Message+"\n"))
			if n := m.Stats().Connections; n != 0 {
				t.Errorf("the machine was called %d times", n)
			}
			if c.mended {
				r.replace(secret, r.worker().JSON())
				r.untilReady(name)
			}
		})
	}
}

// TestIgnitionGone: a Secret that is not there, one without the key, and both put right.
func TestIgnitionGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.azure)
	r.profileOf("later", v1alpha1.IgnitionSpec{SecretName: "later"})
	_, said := r.untilFacts("later", metav1.ConditionFalse, v1alpha1.ReasonIgnitionMissing)
	messages := said.Message
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: bed.Namespace, Name: "later"}, Data: map[string][]byte{"worker.json": []byte("{}")}}
	r.create(s)
	r.until("the operator sees a Secret without the key", func() (bool, string) {
		_, said = r.untilFacts("later", metav1.ConditionFalse, v1alpha1.ReasonIgnitionMissing)
		return said.Message != messages, said.Message
	})
	r.golden("later.txt", []byte(messages+"\n"+said.Message+"\n"))
	r.replace(s, r.worker().JSON())
	r.untilFacts("later", metav1.ConditionTrue, v1alpha1.ReasonFactsComplete)
}

// TestW04LeftoverCompression: a plain file that is still declared gzip is refused by name, and what the node has stays whole. An admin who gives
// up on the host meanwhile may delete it, and gets a clean machine.
func TestW04LeftoverCompression(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.azure)
	secret := r.served("w04", r.worker().JSON())
	m := r.machine("w04", "w04")
	h := r.untilReady("w04")
	before, plan := r.file("w04", kubeletConf), h.Status.Plan.Digest

	i := r.worker("maxPods: 240", "maxPods: 4")
	i.File(bed.IgnitionKubeletConfig).Contents.Compression = ptr.To("gzip")
	r.replace(secret, i.JSON())
	said := r.untilSaid("w04", metav1.ConditionTrue, v1alpha1.ReasonIgnitionInvalid)
	r.golden("w04.txt", []byte(said.Message+"\n"))
	if now := r.host("w04"); !bytes.Equal(before, r.file("w04", kubeletConf)) || now.Status.Plan.Digest != plan {
		t.Errorf("kubelet.conf or plan %s changed: %+v", plan, now.Status.Plan)
	}

	r.must(r.bed.Client.Delete(r.ctx, h))
	r.until("the host is gone", func() (bool, string) {
		err := r.bed.Client.Get(r.ctx, client.ObjectKeyFromObject(h), h)
		return apierrors.IsNotFound(err), state(readyOf(h))
	})
	if left, there := m.Machine().Dump().Services["kubelet"]; there {
		t.Errorf("the machine still has %+v", left)
	}
}
