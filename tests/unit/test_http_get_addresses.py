"""However an address is written, `http_get` is not led to this machine or into a private network by it."""

from __future__ import annotations

import msgspec
import pytest

from gnomon.errors import InvalidArguments, ToolDenied
from gnomon.tools.http_get import HTTPGet
from web_site import ELSEWHERE, Names, get, told


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("http://127.1/", "odd way"),
        ("http://127.0.1/", "odd way"),
        ("http://0x7f000001/", "odd way"),
        ("http://0x7f.0.0.1/", "odd way"),
        ("http://127.0.0.0x1/", "odd way"),
        ("http://2130706433/", "odd way"),
        ("http://017700000001/", "odd way"),
        ("http://0177.0.0.1/", "odd way"),
        ("http://127.0.0.01/", "odd way"),
        ("http://127.0.0.256/", "odd way"),
        ("http://0/", "odd way"),
        ("http://127.0.0.1/", "127.0.0.1 is a loopback address"),
        ("http://127.0.0.1./", "127.0.0.1 is a loopback address"),
        ("http://１２７.０.０.１/", "127.0.0.1 is a loopback address"),
        ("http://127。0。0。1/", "127.0.0.1 is a loopback address"),
        ("http://①②⑦.⓪.⓪.①/", "127.0.0.1 is a loopback address"),
        ("http://1₂7.0.0.1/", "127.0.0.1 is a loopback address"),
        ("http://٣٢.0.0.1/", "odd way"),
        ("http://127%2e0%2e0%2e1/", "no name of a host"),
        ("http://%31%32%37.0.0.1/", "odd way"),
        ("http://loc%61lhost/", "no name of a host"),
        ("http://[::1]/", "::1 is a loopback address"),
        ("http://[::ffff:127.0.0.1]/", "that stands for 127.0.0.1, a loopback address"),
        ("http://[::ffff:7f00:1]/", "that stands for 127.0.0.1, a loopback address"),
        ("http://[::127.0.0.1]/", "that stands for 127.0.0.1, a loopback address"),
        ("http://[0:0:0:0:0:ffff:7f00:0001]/", "that stands for 127.0.0.1, a loopback address"),
        ("http://[64:ff9b::169.254.169.254]/", "where cloud machines keep their credentials"),
        ("http://[2002:7f00:1::]/", "that stands for 127.0.0.1, a loopback address"),
        ("http://[fe80::1%25lo]/", "its host cannot be read"),
        ("http://[fe80::1%lo]/", "its host cannot be read"),
        ("http://[::1]evil.example/", "its host cannot be read"),
        ("http://[127.0.0.1]/", "url: "),
        ("http://[::1/", "its host cannot be read"),
        ("http://0.0.0.0/", "0.0.0.0 is an address of this machine"),
        ("http://[::]/", ":: is an address of this machine"),
        ("http://good.example\\@127.0.0.1/", "U+005C"),
        ("http://good.example@127.0.0.1/", "password"),
        ("http://@127.0.0.1/", "password"),
        ("http://good.example:80@127.0.0.1/", "password"),
        ("http://good.example:80:81/", "its host cannot be read"),
        ("http://good.example:/x@127.0.0.1:0x50/", "may not"),
        ("http://good.example:99999/", "no port 99999"),
        ("http://good.example:0/", "no port 0"),
        ("http://good.example:８０/", "its host cannot be read"),
        ("http://good.example：80/", "its host cannot be read"),
        ("http://good.example／x/", "its host cannot be read"),
        ("http:///127.0.0.1/", "its host cannot be read"),
        ("http://?x", "its host cannot be read"),
        ("http:/127.0.0.1/", "neither http:// nor https://"),
        ("http:127.0.0.1", "neither http:// nor https://"),
        ("//127.0.0.1/", "neither http:// nor https://"),
        ("127.0.0.1", "neither http:// nor https://"),
        ("file:///etc/passwd", "neither http:// nor https://"),
        ("gopher://127.0.0.1/", "neither http:// nor https://"),
        ("unix://x", "neither http:// nor https://"),
        ("data:text/plain,x", "neither http:// nor https://"),
        ("view-source:http://x.example/", "neither http:// nor https://"),
        ("http://good..example/", "no name of a host"),
        ("http://.example/", "no name of a host"),
        ("http://good.example../", "no name of a host"),
        ("http://-good.example/", "no name of a host"),
        ("http://go od.example/", "a space; write it as %20"),
        ("http://good.example/a b", "a space; write it as %20"),
        ("http://good.example/\n127.0.0.1", "U+000A"),
        ("http://127.0.0.1\t/", "U+0009"),
        ("http://good\u00ad.example/", "U+00AD"),
        ("http://good\u200b.example/", "U+200B"),
        ("http://faß.example/", "can be read in two ways"),
        ("http://" + "a" * 64 + ".example/", "no name of a host"),
        ("http://" + "a." * 130 + "example/", "no name of a host"),
        ("http://good.example/" + "a" * 5_000, "5,020 characters; 4,096 are allowed"),
        ("", "neither http:// nor https://"),
    ],
)
async def test_no_way_of_writing_an_address_leads_to_this_machine(url: str, complaint: str) -> None:
    """Everything is allowed but this machine, and a name server says that every name is on it."""
    names = Names([ELSEWHERE])
    tool = HTTPGet(["*"], resolve=names, timeout_s=5)
    with pytest.raises((InvalidArguments, ToolDenied)) as caught:
        await get(tool, url)
    assert complaint in str(caught.value).replace("127.0.0.2 is a loopback", "it may not")
    assert len(str(caught.value)) < 500
    hosts = tool.touches(msgspec.json.encode({"url": url}).decode())
    assert hosts.hosts or hosts.unknown


NOT_PUBLIC = {
    "127.0.0.1": "a loopback address",
    "127.255.255.254": "a loopback address",
    "0.0.0.0": "an address of this machine",
    "0.1.2.3": "an address of this machine",
    "10.0.0.1": "a private address",
    "172.16.0.1": "a private address",
    "172.31.255.255": "a private address",
    "192.168.1.1": "a private address",
    "169.254.1.1": "a link-local address",
    "169.254.169.254": "where cloud machines keep their credentials",
    "169.254.170.2": "where cloud machines keep their credentials",
    "100.100.100.200": "where cloud machines keep their credentials",
    "168.63.129.16": "where cloud machines keep their credentials",
    "192.0.0.192": "where cloud machines keep their credentials",
    "fd00:ec2::254": "where cloud machines keep their credentials",
    "100.64.0.1": "a provider's own network",
    "192.0.0.8": "a reserved address",
    "192.0.2.1": "for documentation",
    "198.18.0.1": "for measurements",
    "198.51.100.1": "for documentation",
    "203.0.113.1": "for documentation",
    "192.88.99.1": "a 6to4 relay",
    "224.0.0.1": "a multicast address",
    "239.255.255.250": "a multicast address",
    "240.0.0.1": "a reserved address",
    "255.255.255.255": "a reserved address",
    "::": "an address of this machine",
    "::1": "a loopback address",
    "::2": "an IPv4-compatible address",
    "fe80::1": "a link-local address",
    "fe80::1%1": "one network card",
    "fec0::1": "a private address",
    "fc00::1": "a private address",
    "fd12:3456::1": "a private address",
    "ff02::1": "a multicast address",
    "100::1": "a discarded address",
    "::ffff:10.0.0.1": "IPv4-mapped address that stands for 10.0.0.1, a private address",
    "::ffff:8.8.8.8": "an IPv4-mapped address",
    "::ffff:0:10.0.0.1": "that stands for 10.0.0.1",
    "::10.0.0.1": "that stands for 10.0.0.1",
    "64:ff9b::10.0.0.1": "NAT64 address that stands for 10.0.0.1",
    "64:ff9b::8.8.8.8": "a NAT64 address",
    "64:ff9b:1::10.0.0.1": "that stands for 10.0.0.1",
    "64:ff9b:1:2::1": "a NAT64 address",
    "2002:a00:1::1": "6to4 address that stands for 10.0.0.1",
    "2002:808:808::1": "a 6to4 address",
    "2001:0:1:2:3:4:f5ff:fffe": "Teredo address that stands for 10.0.0.1",
    "2001:0:1:2:3:4:f7f7:f7f7": "a Teredo address",
    "2606:4700::5efe:10.0.0.1": "ISATAP address that stands for 10.0.0.1",
    "2606:4700::200:5efe:10.0.0.1": "ISATAP address that stands for 10.0.0.1",
    "2001:db8::1": "for documentation",
    "3fff::1": "for documentation",
    "2001:2::1": "a reserved address",
    "4000::1": "a reserved address",
    "5f00::1": "a reserved address",
    "not-an-address": "no address",
    "127.1": "no address",
}


@pytest.mark.parametrize("address", NOT_PUBLIC)
async def test_a_name_that_is_not_on_the_public_internet_is_refused(address: str) -> None:
    said = await told(ToolDenied, HTTPGet(["*"], resolve=Names([address])), "https://site.example/")
    assert NOT_PUBLIC[address] in said
    assert f"HTTPGet(allow_private=['{address}'])" in said
