//! A real S3 server on this machine, where one is installed.

#[cfg(feature = "s3")]
pub use with_client::start;
#[cfg(not(feature = "s3"))]
pub use without_client::start;

/// No server, because there is no client of it.
#[cfg(not(feature = "s3"))]
mod without_client {
    use std::sync::Arc;

    use bufpool_remote::object::object_store::ObjectStore;

    pub enum Server {}

    pub fn start() -> Option<Server> {
        println!("skipped: no S3 server, because this was built without the feature s3");
        None
    }

    impl Server {
        pub fn store(&self) -> Arc<dyn ObjectStore> {
            match *self {}
        }
    }
}

/// A server that is stopped when this is dropped, and its folder removed.
#[cfg(feature = "s3")]
mod with_client {
    use std::net::{TcpListener, TcpStream};
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};
    use std::sync::Arc;
    use std::time::Duration;

    use bufpool_remote::object::object_store::ObjectStore;
    use bufpool_remote::object::object_store::aws::AmazonS3Builder;

    const BUCKET: &str = "tables";
    const KEY: &str = "bufpool";

    pub struct Server {
        process: Child,
        port: u16,
        _folder: tempfile::TempDir,
    }

    /// Starts versitygw over a folder. None, with the reason printed, where it is not installed.
    pub fn start() -> Option<Server> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(BUCKET)).unwrap();
        // Free now; nobody else is likely to take it before the server does.
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let mut last = None;
        for program in programs() {
            let mut command = Command::new(&program);
            command.args(["--port", &address, "--access", KEY, "--secret", KEY, "posix"]).arg(folder.path());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            match command.spawn() {
                Ok(process) => {
                    let mut server = Server { process, port, _folder: folder };
                    return server.is_ready().then_some(server).or_else(|| {
                        println!("skipped: {} does not start here", program.display());
                        None
                    });
                }
                Err(error) => last = Some(error),
            }
        }
        println!(
            "skipped: no S3 server ({}); install one by \
             go install github.com/versity/versitygw/cmd/versitygw@v1.8.0",
            last.map_or_else(String::new, |error| error.to_string())
        );
        None
    }

    fn programs() -> Vec<PathBuf> {
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin/versitygw"));
        [PathBuf::from("versitygw")].into_iter().chain(home).collect()
    }

    impl Server {
        /// Waits until it answers, ten seconds at most, or ends.
        fn is_ready(&mut self) -> bool {
            for _ in 0..500 {
                if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                    return true;
                }
                if !matches!(self.process.try_wait(), Ok(None)) {
                    return false;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            false
        }

        /// A client.
        pub fn store(&self) -> Arc<dyn ObjectStore> {
            let builder = AmazonS3Builder::new()
                .with_endpoint(format!("http://127.0.0.1:{}", self.port))
                .with_allow_http(true)
                .with_bucket_name(BUCKET)
                .with_region("us-east-1")
                .with_access_key_id(KEY)
                .with_secret_access_key(KEY);
            Arc::new(builder.build().unwrap())
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}
