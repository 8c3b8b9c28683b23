package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/base/buildinfo"
)

func TestLicensesAreCurrent(t *testing.T) {
	components, err := collect("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../licenses.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(encode(components)), string(got)); diff != "" {
		t.Errorf("licenses.json is out of date; run \"make licenses\" (-want +got):\n%s", diff)
	}
}

// All licenses must allow redistribution with attribution, and must not impose conditions on our
// own code.
func TestLicensesArePermissive(t *testing.T) {
	permissive := map[string]bool{
		"Apache-2.0": true, "BSD-2-Clause": true, "BSD-3-Clause": true, "ISC": true, "MIT": true, "OFL-1.1": true, "Unlicense": true,
		"Apache-2.0 AND BSD-3-Clause AND MIT": true,
	}
	for _, c := range buildinfo.Listed() {
		if !permissive[c.License] {
			t.Errorf("%s: check whether its license %q permits redistribution, and add it here", c.Name, c.License)
		}
	}
}

func TestClassify(t *testing.T) {
	for text, want := range map[string]string{
		"Apache License\n   Version 2.0, January 2004":                            "Apache-2.0",
		"Permission is hereby granted,\nfree of charge":                           "MIT",
		"Redistribution and use in source and binary forms … Neither the name of": "BSD-3-Clause",
		"Redistribution and use in source and binary forms":                       "BSD-2-Clause",
		"all rights reserved": "",
	} {
		if got, err := classify([]string{text}); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestTextsAreWrittenOnce(t *testing.T) {
	got := string(document(map[string][]string{"b": {"license 1", "notice"}, "a": {"license 1"}}))
	if strings.Count(got, "license 1") != 1 || !strings.Contains(got, "a\nb\n---") || !strings.Contains(got, "notice") {
		t.Error(got)
	}
}
