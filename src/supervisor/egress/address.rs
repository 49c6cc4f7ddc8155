//! Which addresses are public: not of this machine, not of its networks, not of the cloud it runs in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Whether a run may be connected to this address when nobody but its skill asks for it.
pub(crate) fn is_public(address: IpAddr) -> bool {
    let public = match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    };
    public && !is_own(address)
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let shared = a == 100 && (64..128).contains(&b);
    let protocol = (a, b, c) == (192, 0, 0);
    let relay = (a, b, c) == (192, 88, 99);
    let measured = a == 198 && (b == 18 || b == 19);
    !(a == 0
        || a >= 224
        || shared
        || protocol
        || relay
        || measured
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // Addresses that stand for one of IPv4: mapped, compatible, behind a translator, by 6to4.
    let [a, b, _, _, _, _, high, low] = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    if address.segments()[..5] == [0; 5] || address.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        return v4(high, low);
    }
    match (a, b) {
        (0x2002, _) => v4(b, address.segments()[2]),
        // Tunnels, documentation.
        (0x2001, 0..=0x1ff | 0xdb8) => false,
        // What is given out to the world.
        _ => a & 0xe000 == 0x2000,
    }
}

/// Whether it is an address of this machine: then it is also the one from which it would be reached.
fn is_own(address: IpAddr) -> bool {
    let unspecified: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Nothing is sent by this.
    let from = UdpSocket::bind((unspecified, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_the_machine_nor_its_networks_nor_metadata_are_public() {
        let closed = [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.100.100.200",
            "192.0.0.192",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:169.254.169.254",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "::127.0.0.1",
        ];
        for text in closed {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }
}
