package plan

import (
	"encoding/json"
	"testing"
)

// The operator digests a plan in every pass, and the agent reads one at every start.

func BenchmarkDigest(b *testing.B) {
	p := validPlan()
	b.ReportAllocs()
	for b.Loop() {
		if p.Digest() == "" {
			b.Fatal("no digest")
		}
	}
}

func BenchmarkParse(b *testing.B) {
	text, err := json.Marshal(validPlan())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	p := validPlan()
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Validate(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDiff(b *testing.B) {
	from, to := validPlan(), validPlan(onFile(File{Path: `C:\k\more.conf`, Access: AccessPublic, Inline: []byte("x")}))
	b.ReportAllocs()
	for b.Loop() {
		if len(Diff(from, to)) == 0 {
			b.Fatal("no difference")
		}
	}
}
